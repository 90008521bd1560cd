#!/usr/bin/python3
"""Server network cards, Figures 2 and 3: a port with one queue, a port with multiple queues, and an ideal one, by number
of cores.
"""

import os
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from lib import frames, lab, machine, model, runs  # noqa: E402
from lib.figure import (  # noqa: E402
    Figure, column, compared, dropped, median, of_rounds, percent_less, quotient, spread, table)
from lib.plot import OTHER, OURS, PAPER  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
PORTS = ["net_null0,size=64,copy=1", "net_null1,size=64,copy=1"]
NAMES = ["A=net_null0", "B=net_null1"]
WORKING = [1, 2, 4, 6]  # cores between the one that receives and the one that sends
MULTI = [n for n in (1, 2, 4, 6, 8) if n <= os.cpu_count()]
CORES = range(1, 9)


def serial(working):
    """The three steps of a serial NIC, with the queues for `working` cores. On two cores the first core receives,
    splits, merges and sends, and the second does the work of all those cores. As in the paper, the steps are
    connected by queues between cores.
    """
    lines = ["// Made by measure.py: receive and split, forward, merge and send.",
             "FromDevice($A, CORES 0) -> split :: RoundRobinSwitch;", "merge :: RoundRobinSched -> send :: ToDevice($B, CORES 0);"]
    for n in range(working):
        lines.append(f"split[{n}] -> Queue(1024) -> work{n} :: Unqueue(CORES 1) -> Queue(1024) -> [{n}] merge;")
    return "\n".join(lines) + "\n"


def run(conf, cores, values=()):
    def step(here):
        path = here.folder / "serial.click" if conf is None else HERE / conf
        router = here.router(path, [*NAMES, *values], PORTS, cores)
        router.wait_sending()
        return router.measure_stages(runs.SECONDS) | {"hz": machine.tsc_hz()}

    return step


def run_flows(conf, cores, queues):
    """Runs with frames of many flows, which a hash can distinguish: each receive queue replays the same endless capture.
    """
    def step(here):
        values = ["A=net_pcap0", "B=net_null1", f"CORES={queues}"]
        router = here.router(HERE / conf, values, lab.vdevs(frames.fixed(64), queues=queues), cores, buffers=262_143)
        router.wait_sending()
        return router.measure_stages(runs.SECONDS) | {"hz": machine.tsc_hz()}

    return step


def run_serial(working):
    def step(here):
        (here.folder / "serial.click").write_text(serial(working))
        return run(None, (lab.OTHER, lab.MEASURED))(here)

    return step


def steps():
    yield "one", run("one-core.click", (lab.MEASURED,))
    yield "serial two", run("serial-two.click", (lab.OTHER, lab.MEASURED))
    for cores in MULTI[1:]:
        yield f"multi {cores}", run("multi-queue.click", range(cores), [f"CORES={cores}"])
    yield "flows one", run_flows("multi-queue.click", (lab.MEASURED,), 1)
    yield "flows multi", run_flows("multi-queue.click", (lab.OTHER, lab.MEASURED), 2)
    yield "flows software", run_flows("software-nic.click", (lab.OTHER, lab.MEASURED), 1)
    for working in WORKING:
        yield f"serial steps {working}", run_serial(working)


def step_rounds(results, working):
    """Cycles per packet to receive and split, to forward, and to merge and send: a list of rounds each."""
    rounds = results[f"serial steps {working}"]
    return [[model.step_cycles(one, kind) for one in rounds] for kind in ("FromDevice", "work", "send")]


def step_costs(results, working):
    """Medians of the cycles per packet of each step."""
    return [statistics.median(one) for one in step_rounds(results, working)]


def noise(results):
    """Sentence on the spread of the steps' costs, if it makes the computed rates of a serial NIC go up and down."""
    rates = [computed(results)["serial"][1][n] for n in CORES[1:]]
    widest = max(max(one) / min(one) for working in WORKING for one in step_rounds(results, working))
    if rates in (sorted(rates), sorted(rates, reverse=True)):
        return ""
    return (" The computed rates go up and down with the cores, "
            f"as rounds of these costs differ by up to {widest:.1f} times.")


def beside(error):
    """Words on an error in percent."""
    return f"{abs(error):.0f} % {'below' if error < 0 else 'above'}"


def computed(results):
    """Curves by number of cores: name, measured values, and model."""
    one, hz = median(results, "one"), results["one"][0]["hz"]
    known = [n for n in (2, 4, 6, 8) if f"multi {n}" in results]
    most = max(known)
    each = median(results, f"multi {most}") / most
    serial_by_model = {1: one}
    for n in CORES:
        if n < 2:
            continue
        near = min(WORKING, key=lambda w: abs(w - max(n - 2, 1)))
        receive, forward, send = step_costs(results, near)
        stages = [(receive, 1), (send, 1)] + ([(forward, n - 2)] if n > 2 else [])
        serial_by_model[n] = model.chain(stages, hz)
    return {
        "serial": ({1: one, 2: median(results, "serial two")}, serial_by_model),
        "multi": ({1: one} | {n: median(results, f"multi {n}") for n in known},
                  {n: one if n == 1 else n * each for n in CORES}),
        "ideal": ({}, {n: n * one for n in CORES}),
    }


def trust(results, curves):
    """Sentence on the model of a serial NIC: whether the only measurement that it can be compared with contradicts it."""
    measured, by_model = column(results, "serial two"), curves["serial"][1][2]
    if min(measured) <= by_model <= max(measured):
        return "That is within the spread of the rounds, so the computed rates are as uncertain."
    return f"So all rounds {'exceed' if by_model < min(measured) else 'are below'} the model, and what is computed for a serial NIC with more cores is a guess."


def values(raw):
    results = raw["results"]
    curves = computed(results)
    count = min(map(len, results.values()))
    rows = []
    for n in CORES:
        row = [n]
        for name in ("serial", "multi", "ideal"):
            measured, by_model = curves[name]
            if name != "ideal":  # which is only computed
                label = "one" if n == 1 else "serial two" if name == "serial" else f"multi {n}"
                row.append(spread(column(results, label, scale=1e6), 1) if n in measured else "")
            row.append(f"{by_model[n] / 1e6:.1f}")
        rows.append(row)
    head = ["cores", "serial, measured", "by the model", "multi-queue, measured", "by the model", "ideal, computed"]
    costs = [[w, *(spread(one, 0) for one in step_rounds(results, w)),
              spread(column(results, f"serial steps {w}", scale=1e6))] for w in WORKING]
    flows = [[what, spread(column(results, f"flows {name}", scale=1e6)),
              1 if name == "one" else quotient(column(results, f"flows {name}"), column(results, "flows one"), 2)]
             for name, what in (("one", "one core, one queue"), ("multi", "two cores, a queue each"), ("software", "two cores, one queue, `CLASSIFY hash`"))]
    ports = figure.other("nic-fig4-5")["results"]
    together, apart = (column(ports, f"{name} 2") for name in ("one port", "two ports"))
    separate = ("Its queues are not as separate as a card's:\ntwo cores with a port each carry more ([Figures 4 and 5](../nic-fig4-5)). A part of what is below ideal is this.\n"
                if compared(together, apart) == "less" else "")
    worst = "Minimal forwarding is its worst case, because sorting and crossing\ncost more than the work that is shared"
    if compared(column(results, "flows software"), column(results, "flows one")) != "less":
        worst = "With minimal forwarding it is\nnot distinguishable from one core, or faster"
    below = compared(column(results, "multi 2", scale=2), column(results, "one"))
    return {
        "separate": separate, "worst": worst,
        "flows": table(["frames of many flows", "Mpps", "of one core"], flows),
        "table": table(head, rows),
        "costs": table(["queues", "receive and split, cycles a packet", "forward", "merge and send", "all on two cores, Mpps"], costs),
        "serial rounds": f"{max(column(results, 'serial two')) / min(column(results, 'serial two')):.2f}",
        "trust": trust(results, curves),
        "error": beside(model.error(curves["serial"][1][2], curves["serial"][0][2])), "noise": noise(results),
        "dropped": dropped(results, "serial two"),
        "most": str(max(curves["multi"][0])), "rounds": of_rounds(count),
        "two": quotient(column(results, "multi 2"), column(results, "serial two")),
        "below": percent_less(column(results, "multi 2", scale=2), column(results, "one")),
        "below remark": ", within the spread of the rounds" if below == "no different" else "",
    }


def draw(axes, raw):
    curves, colors = computed(raw["results"]), {"serial": OTHER, "multi": OURS, "ideal": PAPER}
    for axis, scale, title in ((axes[0], lambda n: 1e6, "all cores (Figure 2)"), (axes[1], lambda n: 1e6 * n, "each core (Figure 3)")):
        for name, (measured, by_model) in curves.items():
            axis.plot(list(by_model), [rate / scale(n) for n, rate in by_model.items()], "--", color=colors[name], label=name)
            axis.plot(list(measured), [rate / scale(n) for n, rate in measured.items()], "o", color=colors[name])
        axis.set_xlabel("cores")
        axis.set_ylabel("Mpps")
        axis.set_ylim(bottom=0)
        axis.set_title(title)
    axes[0].legend(title="dots measured, lines by the model")


def summary(raw, values):
    return [("Server network cards Figures 2 and 3, multi-queue over serial", "over 3 times; 30 % below ideal",
             f"{values['two']} times with two cores; {values['below']} % below ideal{values['below remark']}")]


figure = Figure(__file__, steps, values, draw, size=(8, 3.4), panels=2, summary=summary)

if __name__ == "__main__":
    figure.main()
