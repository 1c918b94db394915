"""Programs that tests run: kproxy in special forms, containers, compilers, readers of files."""
