"""The dashboard checked against the types that Grafana publishes, by the TypeScript compiler.

The JSON is written as typed constants: the dashboard without its panels, each variable, each panel, and of each panel
the options and the field settings of its kind. Every field may be left out, as Grafana fills in defaults; a field that
Grafana does not know, or a value of another type, is an error. The queries themselves are not typed by Grafana.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

from deploy_pages import tool_folder
from patience import patient

_HEAD = """import type { Dashboard, Panel, VariableModel } from '@grafana/schema/dist/types/veneer/dashboard.types';
import type * as stat from '@grafana/schema/dist/types/raw/composable/stat/panelcfg/x/types.gen';
import type * as table from '@grafana/schema/dist/types/raw/composable/table/panelcfg/x/types.gen';
import type * as timeseries from '@grafana/schema/dist/types/raw/composable/timeseries/panelcfg/x/types.gen';

// Every field optional at every depth, and the values of an enum also as the strings that JSON has.
type Loose<T> = T extends string ? `${T}` : T extends (infer E)[] ? Loose<E>[]
    : T extends object ? { [K in keyof T]?: Loose<T[K]> } : T;
"""
_FIELD_CONFIGS = {"stat": "Record<string, never>", "table": "table.FieldConfig", "timeseries": "timeseries.FieldConfig"}


def check_types(dashboard: dict[str, Any], folder: Path) -> str:
    """What the compiler says; empty if the dashboard is of Grafana's types."""
    tools = tool_folder("grafana-types")
    (folder / "node_modules").symlink_to((tools / "node_modules").resolve())
    (folder / "dashboard.ts").write_text(_as_typescript(dashboard))
    compiler = folder / "node_modules" / "typescript" / "bin" / "tsc"
    # The package's list of exports leaves these types out, so its folders are looked at as they are.
    options = ["--noEmit", "--strict", "--skipLibCheck", "--moduleResolution", "node10", "--module", "es2020"]
    command = ["node", compiler, *options, "--target", "es2020", "--preserveSymlinks", "dashboard.ts"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=patient(120), check=False)
    assert (done.returncode == 0) == (done.stdout == ""), done
    return done.stdout


def _as_typescript(dashboard: dict[str, Any]) -> str:
    lines = [_HEAD]

    def constant(kind: str, value: Any) -> None:
        lines.append(f"export const c{len(lines)}: Loose<{kind}> = {json.dumps(value)};")

    without = {name: value for name, value in dashboard.items() if name not in ("panels", "templating")}
    constant("Dashboard", without)
    for variable in dashboard["templating"]["list"]:
        constant("VariableModel", variable)
    for panel in dashboard["panels"]:
        constant("Panel", panel)
        constant(f"{panel['type']}.Options", panel["options"])
        constant(_FIELD_CONFIGS[panel["type"]], panel["fieldConfig"]["defaults"]["custom"])
    return "\n".join(lines) + "\n"
