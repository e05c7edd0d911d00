"""Imported before nbformat, so that nbformat takes half a second of a processor and not five.

nbformat imports jsonschema, which, where rfc3987-syntax is installed (Jupyter's server needs it), parses the grammar of
RFC 3987 in case a schema has the format `iri`. No notebook's schema has. For processes of our own only: what else a
process validates would go without that format, as it does where rfc3987-syntax is not installed.
"""

import sys

sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]  # so Python notes what is not to be imported
