"""Random arguments of an element, by the specification of its class."""

import re

from .classes import LAX, PER_INPUT, PER_OUTPUT, PLACE_ONLY
from .values import value, with_output


def once(entries):
    """The entries of ARPResponder, without those that repeat a prefix of their own or of an earlier entry."""
    alike = {
        "0/0": "0.0.0.0/0",
        "10/8": "10.0.0.0/8",
        "n4": "10.0.0.0/8",
        "10.0.0.0/255.255.255.0": "10.0.0.0/24",
        "10.0.0.1/24": "10.0.0.0/24",
        "n1:ipnet": "10.0.0.0/24",
        "n1": "10.0.0.1",
        "n1:ip": "10.0.0.1",
        "10.1.2.3/255.255.0.0": "10.1/16",
        "n2": "10.1.2.3",
    }
    seen, out = set(), []
    for entry in entries:
        prefixes = [alike.get(word, word) for word in entry.split()[:-1]]
        if len({*prefixes} - seen) == len(prefixes):
            seen |= {*prefixes}
            out.append(entry)
    return out


def listed(r, spec, kind, low, inputs, outputs, odd):
    """Arguments of one kind: any number, or one for each port."""
    count = r.choice([low, 1, 1, 2, 2, 3])
    if kind in PER_INPUT:
        count = inputs
    if kind in PER_OUTPUT:
        count = outputs
    if spec.name in ("BandwidthMeter", "Meter"):
        count = outputs - 1
    return [value(r, kind, odd) for _ in range(count)]


def drawn(r, spec, inputs, outputs):
    """Arguments by place and by keyword, some of them wrong."""
    out = []
    odd = r.choice([0, 0, 0, 0.08])
    keyed = False  # An argument by place may not follow a keyword.
    for arg in spec.args:
        match = re.fullmatch(r"(\w+)([*+])", arg)
        if match:
            out += listed(r, spec, match[1], 1 if match[2] == "+" else 0, inputs, outputs, odd)
            continue
        match = re.fullmatch(r"(\[)?(\w+)([:=!])(\w+)\]?", arg)
        optional, name, sign, kind = match[1] is not None, match[2], match[3], match[4]
        if kind == "port_number":
            kind = f"port_below_{max(inputs, outputs)}"
        if sign == "!":
            out.append(f"{name} {value(r, kind, odd)}")
        elif sign == "=":
            if r.random() < min(0.35, 2 / len(spec.args) + 0.1):
                out.append(f"{name} {value(r, kind, odd) or '-'}")
        elif optional:
            if r.random() < 0.5:
                keyed = keyed or r.random() < 0.4
                out.append((f"{name} " if keyed else "") + value(r, kind, odd))
            else:
                keyed = True
        elif r.random() < 0.99 or spec.name in LAX:
            keyed = keyed or r.random() < 0.05
            # An empty argument that is required is none here, and often one in Click: docs/click.md.
            out.append((f"{name} " if keyed else "") + (value(r, kind, odd) or "x"))
    return out


def has(args, *keywords):
    """True if an argument begins with one of the keywords."""
    return any(a.startswith(tuple(f"{k} " for k in keywords)) for a in args)


def only(args, *keywords):
    """Arguments that begin with one of the keywords."""
    return [a for a in args if has([a], *keywords)]


def without(args, *keywords):
    """Arguments that begin with none of the keywords."""
    return [a for a in args if not has([a], *keywords)]


def allowed(spec, out):
    """Arguments without combinations that this program refuses on purpose, as docs/click.md says."""
    out = [arg for arg in out if arg not in ('INTERFACES ""', "LENGTH -5")]
    if spec.name == "ICMPRewriter":
        out = [arg.replace('""', "x") for arg in out]
    if has(out, "INTERFACES"):
        out = without(out, "BADSRC", "GOODDST")
    if has(out, "VLAN_ID"):
        if spec.name == "EtherVLANEncap":
            out = without(out, "VLAN_ID")
        else:
            out = only(out, "VLAN_ID", "ETHERTYPE", "SRC", "DST", "NATIVE_VLAN")
    if spec.name == "VLANEncap" and not has(out, "VLAN_ID", "VLAN_TCI"):
        out = [*(a for a in out if re.match("[A-Z_]+ ", a)), "VLAN_ID 5"]
    if spec.name == "RandomSample" and has(out, "DROP"):
        out = only(out, "DROP", "ACTIVE")
    if spec.name in ("FromDump", "TimeFilter") and has(out, "INTERVAL"):
        out = without(out, "START", "START_AFTER", "END")
    if spec.name == "FromDump" and has(out, "START_AFTER"):
        out = [arg for arg in out if arg != "START 0"]
    if spec.name == "FromDump" and has(out, "START", "START_AFTER"):
        out = without(out, "TIMING")
    if spec.name == "Message" and out[:1] in (['""'], ['MESSAGE ""']):
        out = [arg for arg in out if not arg.endswith("ERROR")]
    if spec.name == "SetVLANAnno":
        out = [re.sub(r"\b(65535|4096)$", "61439", arg) for arg in out]
    if spec.name == "SetVLANAnno" and not without(out, "VLAN_PCP"):
        out.append("VLAN_ID 5")
    if spec.name == "ARPResponder":
        out = once(out)
    if spec.name in PLACE_ONLY:
        out = [re.sub(r"^(IPADDR|INPUT|OUTPUT|NODES) ", "", a) for a in out]
    return out


def arguments(r, spec, inputs, outputs):
    """Random arguments of an element with these numbers of ports."""
    out = [with_output(r, arg, outputs) for arg in drawn(r, spec, inputs, outputs)]
    if outputs > 1:
        out = [re.sub(r" 0 0$", lambda m: r.choice([" 0 1", " 0 1", " 1 0", " 0 0"]), a) for a in out]
    out = allowed(spec, out)
    if r.random() < 0.01 and spec.name not in ("StaticThreadSched", "Suppressor"):
        # An argument by place may stand behind keywords here, but not in all classes of Click: docs/click.md.
        by_place = spec.name in ("CoDel", "RandomSource", "ScheduleInfo", "Script", "ToDump") or any("[" in arg for arg in spec.args)
        # A required argument may have been left out.
        by_place = by_place or any(re.match(r"[A-Z_]+ ", arg) for arg in out[:1])
        out.append(r.choice(["NOTHING 1", ""] + ["5", "x"] * (not by_place)))
    return out
