"""A faster import of nbformat: with this module imported first, it takes half a second of a processor and not five.

nbformat imports jsonschema. Where rfc3987-syntax is installed (Jupyter's server needs it), jsonschema parses the
grammar of RFC 3987, in case a schema has the format `iri`. No notebook's schema has it. Import this module only in
processes of our own: other schemas there would be validated without that format, as without rfc3987-syntax.
"""

import sys

sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]  # None tells Python not to import it
