"""The notebooks of a workbench: what each declares, its parameters and their ranges, and new ones."""
