"""AdamW of the wheel with the newest CPython, that of Debian sid, and with the newest torch of a package index."""

import os
import pathlib
import shutil

from newest import NewestTest

JOBS = 8  # an unsafe latch ended 7 of 8 jobs with CPython 3.14, and 1 of 4 with 3.13
# pip inside finds the index as pip here does. No constraint of this machine holds there: the newest torch is wanted.
CERTIFICATES = pathlib.Path(os.environ.get("PIP_CERT", "/etc/ssl/certs/ca-certificates.crt"))


class NewestAdamW(NewestTest):
    def test_adamw_with_the_newest_cpython(self):
        self.install_build("sid", "python3-torch")
        self.assert_adamw_trains(JOBS)

    def test_adamw_with_the_newest_torch(self):
        """On x86-64 this torch brings CUDA's libraries, several GB."""
        self.install_build("trixie")
        self.addCleanup(shutil.rmtree, self.root / "try")
        variables = {name: value for name, value in os.environ.items() if name in ("PIP_INDEX_URL", "PIP_PROXY")}
        if CERTIFICATES.exists():
            shutil.copy(CERTIFICATES, self.root / "try/certificates.crt")
            variables["PIP_CERT"] = "/try/certificates.crt"
        given = " ".join(f"{name}={value}" for name, value in variables.items())
        self.inside(f"{given} env/bin/pip install --quiet --no-cache-dir --no-compile torch numpy", 1800)
        self.assert_adamw_trains(1)
