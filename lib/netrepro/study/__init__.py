"""The framework for papers: a paper declares its experiments; the library ("the house") measures, judges and draws.

A paper's module declares a `Study`: setting, cases, the experiment of a setting, what is read from a run, which
readings are compared with which published claim, knobs and figures. Everything else is here:

declaration : `Study` and its parts. evidence : how readings become a claim's value. measuring : runs cases,
repetitions and knobs on a tier. runs : all measurements, as tables. trust : checks of whether a run can be believed.
live : live pages whose runs are not the study's own. figures : figures as values. pictures : the functions that draw.

.. include:: how_a_paper_is_written.md
"""

from netrepro.extras import absent

try:
    from netrepro.networks.checks import CHECK_COLUMNS, Check, check_table
    from netrepro.study import figures, pictures
    from netrepro.study.declaration import (
        BESIDE,
        DROPPED_PACKETS,
        GOODPUT_OF_FLOWS,
        OPEN_FIGURES,
        REAL_TIME,
        SIMULATED,
        TEXT,
        VIRTUAL,
        Each,
        Gauge,
        Knob,
        Live,
        OneRun,
        Part,
        Play,
        Point,
        Progress,
        Reading,
        Scale,
        Study,
        of_profile,
        points,
        seed_and_repetition,
        seed_of,
        swept,
    )
    from netrepro.study.evidence import (
        Evidence,
        curve,
        greatest_first,
        jackknife,
        jain,
        least_first,
        least_first_by,
        rankings,
        ratio,
    )
    from netrepro.study.measuring import (
        HOST_DELAY_PACKETS,
        between_real_hosts,
        in_parallel,
        in_real_time,
        measure,
        read_once,
        run_all,
        run_experiment,
        run_once,
        setting_of,
        vary,
    )
    from netrepro.study.runs import TABLES, Runs, load_runs
    from netrepro.study.trust import gap_checks, trust_of, trust_table
except ModuleNotFoundError as error:
    __getattr__ = absent(error, __name__)

__all__ = [
    "BESIDE",
    "CHECK_COLUMNS",
    "DROPPED_PACKETS",
    "GOODPUT_OF_FLOWS",
    "HOST_DELAY_PACKETS",
    "OPEN_FIGURES",
    "REAL_TIME",
    "SIMULATED",
    "TABLES",
    "TEXT",
    "VIRTUAL",
    "Check",
    "Each",
    "Evidence",
    "Gauge",
    "Knob",
    "Live",
    "OneRun",
    "Part",
    "Play",
    "Point",
    "Progress",
    "Reading",
    "Runs",
    "Scale",
    "Study",
    "between_real_hosts",
    "check_table",
    "curve",
    "figures",
    "gap_checks",
    "greatest_first",
    "in_parallel",
    "in_real_time",
    "jackknife",
    "jain",
    "least_first",
    "least_first_by",
    "load_runs",
    "measure",
    "of_profile",
    "pictures",
    "points",
    "rankings",
    "ratio",
    "read_once",
    "run_all",
    "run_experiment",
    "run_once",
    "seed_and_repetition",
    "seed_of",
    "setting_of",
    "swept",
    "trust_of",
    "trust_table",
    "vary",
]
