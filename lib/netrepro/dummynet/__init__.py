"""Floor 1: Dummynet in user space (Carbone and Rizzo, "Dummynet revisited", CCR 40(2), 2010)."""
