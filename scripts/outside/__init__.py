"""The kernels of two public repositories, called as their own Python calls them; see ../outside_programs.py."""
