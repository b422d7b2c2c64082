"""Prompts of `benchmarks/speculative.py`: editing code, summarising, filling in JSON, open chat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

QUEUE = '''\
class JobQueue:
    """Jobs by priority; those of one priority in the order in which they came."""

    def __init__(self, capacity):
        self.capacity = capacity
        self.jobs = {}
        self.count = 0

    def put(self, job, priority=0):
        if self.count >= self.capacity:
            raise OverflowError(f"{self.count} jobs are waiting; at most {self.capacity} may")
        self.jobs.setdefault(priority, []).append(job)
        self.count += 1

    def get(self):
        if not self.count:
            raise LookupError("no job is waiting")
        priority = min(self.jobs)
        job = self.jobs[priority].pop(0)
        if not self.jobs[priority]:
            del self.jobs[priority]
        self.count -= 1
        return job
'''

READER = """\
def read_table(path, separator=","):
    rows = []
    with open(path) as file:
        header = file.readline().strip().split(separator)
        for line in file:
            values = line.strip().split(separator)
            if len(values) != len(header):
                continue
            row = {}
            for name, value in zip(header, values):
                row[name] = value
            rows.append(row)
    return rows


def column(rows, name):
    values = []
    for row in rows:
        values.append(float(row[name]))
    return values


def mean(values):
    total = 0
    for value in values:
        total += value
    return total / len(values)
"""

SHAPES = """\
function area(shape) {
  if (shape.kind === "circle") {
    return Math.PI * shape.radius * shape.radius;
  }
  if (shape.kind === "rectangle") {
    return shape.width * shape.height;
  }
  if (shape.kind === "triangle") {
    return shape.base * shape.height;
  }
  throw new Error("unknown shape: " + shape.kind);
}

function totalArea(shapes) {
  let total = 0;
  for (const shape of shapes) {
    total += area(shape);
  }
  return total;
}

module.exports = { area, totalArea };
"""

HARBOUR = """\
The harbour of the small town was dug by hand in 1843, when the railway had not yet come and every barrel of herring
left by sea. Its two piers are of granite from the island, and the southern one bends in the middle, because the
builders met a shoal that their charts did not show. For sixty years more than ninety boats lay there in the season.
The catch fell after 1907, when steam trawlers from larger towns fished farther out, and by 1930 only eleven boats
were left. The council then proposed to fill the basin and build a market hall on it. A petition with 2,300
signatures, more than the town had inhabitants, stopped the plan. Since 1978 the harbour has been a place for
sailing boats; the old ice house is a museum, and each August the town celebrates the day on which the first boat
passed between the piers.
"""

BATTERY = """\
Researchers at the university tested sodium cells as storage for wind farms over eighteen months. Sodium is a
thousand times more common than lithium and costs a fraction of it, but its ions are larger, so that electrodes
swell and crack. The group coated the electrodes with a thin layer of hard carbon made from walnut shells. After
4,000 cycles the cells kept 91 percent of their capacity; cells without the layer kept 64 percent. They hold about a
third less energy per kilogram than lithium cells, which matters for cars and hardly for a building beside a wind
farm. At minus twenty degrees they still gave 88 percent of their energy. The next step is a container with 2
megawatt hours on the coast, where salt and damp air will show whether the housing lasts. A first report is expected
in two years.
"""

MINUTES = """\
The meeting began at 9:30. Ana reported that the new login page is ready, and that two of forty testers could not
sign in with a hardware key. Boris found the cause: the browser sends the key's answer twice. He will mend it by
Thursday. Chen said that the monthly bill for storage has risen from 1,900 to 2,750 euros since the spring, because
old backups are never deleted. It was decided to keep daily backups for thirty days and monthly ones for two years.
Dana asked whether the customers' export can have Excel files besides CSV; nobody was against it, and she will write
a proposal. The date of the release was moved from the 3rd to the 10th of June, so that there is a week for testing.
Next meeting: Monday.
"""


@dataclass(frozen=True)
class Task:
    """Prompt of a kind; with a schema, the answer is JSON of that form."""

    kind: str
    name: str
    text: str
    schema: dict[str, Any] | None = None

    @property
    def messages(self) -> list[dict[str, str]]:
        return [{"role": "user", "content": self.text}]


def _fenced(code: str, language: str) -> str:
    return f"```{language}\n{code}```"


def _record(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


TEXT, NUMBER = {"type": "string"}, {"type": "number"}

TASKS = (
    Task(
        "editing",
        "rename",
        "Rename the class JobQueue to TaskQueue and the attribute `jobs` to `tasks` everywhere in this file, and "
        f"change nothing else. Answer with the whole file.\n\n{_fenced(QUEUE, 'python')}",
    ),
    Task(
        "editing",
        "type hints",
        f"Add type hints to these functions and change nothing else. Answer with the whole file.\n\n"
        f"{_fenced(READER, 'python')}",
    ),
    Task(
        "editing",
        "bug",
        "The area of a triangle is wrong here: it must be half of base times height. Mend it, and answer with the "
        f"whole file.\n\n{_fenced(SHAPES, 'javascript')}",
    ),
    Task("summarising", "harbour", f"Summarise this text in three sentences.\n\n{HARBOUR}"),
    Task("summarising", "battery", f"Summarise this text in three sentences.\n\n{BATTERY}"),
    Task("summarising", "minutes", f"List the decisions of this meeting, and who does what.\n\n{MINUTES}"),
    Task(
        "filling",
        "people",
        f"Fill in the tasks from these minutes.\n\n{MINUTES}",
        _record(
            start_time=TEXT,
            release_date=TEXT,
            monthly_storage_bill_before=NUMBER,
            monthly_storage_bill_after=NUMBER,
            responsible_for_hardware_keys=TEXT,
            responsible_for_export_proposal=TEXT,
            daily_backups_kept_for_days=NUMBER,
        ),
    ),
    Task(
        "filling",
        "history",
        f"Extract the facts from this text.\n\n{HARBOUR}",
        _record(
            year_in_which_the_harbour_was_dug=NUMBER,
            material_of_the_piers=TEXT,
            number_of_boats_in_the_best_years=NUMBER,
            number_of_boats_left_in_1930=NUMBER,
            number_of_signatures_of_the_petition=NUMBER,
            use_of_the_old_ice_house_today=TEXT,
        ),
    ),
    Task(
        "filling",
        "cells",
        f"Extract the measurements from this text.\n\n{BATTERY}",
        _record(
            duration_of_the_test_in_months=NUMBER,
            number_of_charging_cycles=NUMBER,
            capacity_kept_with_the_layer_in_percent=NUMBER,
            capacity_kept_without_the_layer_in_percent=NUMBER,
            energy_at_minus_twenty_degrees_in_percent=NUMBER,
            material_of_the_layer=TEXT,
        ),
    ),
    Task("chat", "sky", "Why is the sky blue at noon and red in the evening?"),
    Task("chat", "tea", "How do I make a good pot of black tea? Keep it short."),
    Task("chat", "poem", "Write a short poem about a lighthouse in winter."),
)
