"""What the system tells about a run, at one moment: one module for each kind of figure.

A figure that the system does not tell is None. The functions take a dict, `unknown`, and enter the
reason there under the name of the figure, unless one is there.
"""
