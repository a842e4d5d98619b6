"""No training: only says where it was started. Needs no package, so it is quick."""

import report

report.say_ended()
