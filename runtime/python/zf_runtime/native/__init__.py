"""What the package has of the native runtime, and what C++ and Python must know alike."""
