"""What the tests of files run in their environments."""

# A step of the optimizer process. It needs no NumPy. Prints the library's version.
STEP = """import zf_runtime
with zf_runtime.Runtime(groups=[zf_runtime.Group(5)]) as runtime:
    runtime.wait(runtime.submit())
print(zf_runtime.library_version())
"""
