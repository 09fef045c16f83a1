"""Write tasks as verl reads them, for `verl_agent_loop.py`. Needs `.[parquet]`.

python examples/verl_tasks.py ENVIRONMENT SPLIT FILE.parquet
"""

import sys

import pyarrow
import pyarrow.parquet

import agentgym


def main(environment: str, split: str, path: str) -> int:
    with agentgym.make(environment) as env:
        rows = [
            {
                "agent_name": "agentgym",
                "data_source": f"agentgym/{environment}",
                "prompt": [{"role": "user", "content": task.item_id}],  # the loop has its own
                "reward_model": {"style": "rule", "ground_truth": ""},
                "extra_info": {"index": index, "item_id": task.item_id},
            }
            for index, task in enumerate(env.tasks(split))
        ]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
