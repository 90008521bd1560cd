"""Random configurations of Click's language: compound elements, overloads, parameters, groups, ports, mistakes."""

from dataclasses import dataclass, replace

from .packets import Draw
from .tokens import fewer_tokens

ELEMENTS = ("a", "b", "c", "d", "e", "f")
COMPOUNDS = ("A", "B", "C", "Counter", "Null")
ANY = ("Idle", "Idle", "Idle", "Idle", "Tee", "Switch", "Null", "PushNull", "Counter", "Queue", "Print", "Discard",
       "InfiniteSource", "Strip(14)", "Message(hi)", "Paint", "Unqueue")
"""Classes: most of them take any number of ports, so that many random configurations are right."""
VARIABLES = ("x", "y", "z", "w1")
PIECES = ("1", "2", "0x10", "abc", "K 3", "L", "10.0.0.1", '"two words"', "'$x'", '"a\\tb"', "\\<41 42>", '"\\<4 1>"', "a b  c",
          "[1, 2]", "{q}", "true", '"K" 3', "K", "L 4 5", "\\", "5", '"//"', "'/*'", '"a" "b"', "x$$y",
          "K  'a,b'", "$", "-", '""')
ENDS = (";", ";", ";", "\n", ";\n", ";;", " // note\n", "; /* note */", ";\n# 7 \"other.click\"\n", ";\n#line 3\n", ";\n#line 5 \"third.click\"\n")
MISTAKES = ("->", "::", "}", "{", "(", ")", "[", "]", "||", "|", ",", "=>", "...", "<-", ":", "a :: ", "elementclass", "require(",
            "define(", "%", "Idle(", '"', "$x", "[0]", "[-1]", "[x]", "a::b::c", "a a", "input", "output", "1x", "@",
            "elementclass A", "elementclass A {", "a ->", "-> a;", "define $x 1;", "#", "var($x 1)", "Unknown",
            "zz :: Unknown(1);", "zz -> a;", "a[5] -> b;", "elementclass a { };", "a :: Idle;", "Unknown -> a;")


@dataclass(frozen=True)
class Text:
    """A configuration, given as a file."""

    tokens: tuple
    options: tuple
    files: tuple = ()
    name: str = "language"
    packets: tuple = ()

    def text(self):
        return "".join(self.tokens)

    def command(self):
        """Arguments of the program; the configuration is case.click."""
        return [*self.options, "case.click"]

    def told(self):
        return f"click {' '.join(self.command())}\n{self.text()}\n"

    def smaller(self, shows):
        """A smaller case for which `shows` is still true."""
        case = replace(self, options=("-q", "-h", "flatconfig"))
        case = case if shows(case) else self
        return replace(case, tokens=fewer_tokens(case.tokens, lambda tokens: shows(replace(case, tokens=tokens))))


class Scope:
    """Declares elements and classes as a random configuration goes on."""

    def __init__(self, r, wrong, depth, names, classes, variables):
        self.r, self.wrong, self.depth = r, wrong, depth
        self.names, self.classes, self.variables = list(names), list(classes), list(variables)
        self.out, self.forms, self.deep, self.count, self.outputs = [], {}, 0, 0, {}

    def put(self, *tokens):
        self.out += tokens

    def statements(self, count):
        r = self.r
        for _ in range(count):
            if r.random() < self.wrong:
                self.put(r.choice(MISTAKES), " ")
            draw = r.random()
            if draw < 0.25:
                self.declaration()
            elif draw < 0.75:
                self.connection()
            elif draw < 0.9 and self.depth < 3:
                self.elementclass()
            elif draw < 0.93:
                self.define()
            elif draw < 0.95:
                self.put(r.choice(["require(package userlevel)", "require(compact_config)", "require(library lib.click)",
                                   "require(foo)" if self.odd() else ""]))
            else:
                self.put(self.element_class(), *self.arguments(0.5))
            self.put(r.choice(ENDS), r.choice(["\n", " ", ""]))

    def element_class(self):
        """A class of a random element that may have any ports, but for mistakes."""
        r = self.r
        if r.random() < 2 * self.wrong:
            return r.choice([*ANY, *self.classes])
        return r.choice(["Idle", "Idle", "Idle", *(c for c in self.classes if c not in self.forms)])

    def fresh(self):
        r = self.r
        free = [n for n in ELEMENTS if n not in self.names]
        if not free:
            self.count += 1
            return f"n{self.count}"
        return r.choice(ELEMENTS if self.odd() else free)

    def class_part(self):
        """A class with arguments, or a compound element in place."""
        if self.depth < 3 and self.odd():
            self.compound()
            self.put(*self.arguments(0.4))
        else:
            name = self.element_class()
            self.put(name)
            if not name.endswith(")"):
                self.put(*self.arguments(0.7 if name in self.classes else 0.15))

    def declaration(self):
        r = self.r
        names = [self.fresh()]
        while r.random() < 0.2:
            names.append(self.fresh())
        for at, name in enumerate(names):
            self.put(*([", "] if at else []), name)
        self.put(r.choice([" :: ", "::", " ::\n"]))
        self.class_part()
        self.names += names

    def argument(self):
        r = self.r
        parts = []
        for _ in range(r.choice([1, 1, 1, 2])):
            draw = r.random()
            if draw < 0.35 and (self.variables or r.random() < 0.3):
                variable = r.choice(self.variables or VARIABLES)
                parts.append(r.choice(["$V", "${V}", "${V-def}", '"$V"', '"${V}"', "'$V'", "x$V", "${V}y", "$V.$V", "${V[0]}", "${V[1]}",
                                       '"a${V-q r}b"', "$Vq", "K $V", "[$V]", "\\$V", '"\\$V"', "${V[9]}", "${V-$x}",
                                       "$(V)", "${V[-1]}", "${V", "\\<$V>", "${V+1}", "$V$V"]).replace("V", variable))
            else:
                parts.append(r.choice(PIECES))
        return r.choice([" ", " ", ""]).join(parts)

    def arguments(self, chance):
        r = self.r
        if r.random() >= chance:
            return []
        count = r.choice([0, 1, 1, 1, 2, 2, 3, 4])
        out = ["("]
        for at in range(count):
            out += [", "] if at else []
            out.append(self.argument() if r.random() < 0.95 else "")
        return [*out, *([","] if r.random() < 0.05 else []), ")"]

    def odd(self):
        """True if a mistake is due."""
        return self.r.random() < self.wrong

    def port(self):
        """At most one port of an element."""
        r = self.r
        if self.odd():
            return r.choice(["[0,1]", "[]", "[1,0]", "[0x1]", "[0 1]", "[0,0]", "[a]", "[-1]"])
        return r.choice(["", "", "", "", f"[{r.choice([0, 0, 1, 1, 2, 3])}]", "[ 1 ]", " [0]", "[0x1]", "[01]"])

    def ports(self, width):
        """A list of ports."""
        r = self.r
        if width == 1:
            return self.port()
        first = r.choice([0, 0, 0, 1, 2])
        every = [str(first + n) for n in range(width)]
        return r.choice([f"[{','.join(every)}]", f"[{', '.join(every)}]", f"[{first}-{every[-1]}]", f"[{','.join(every[::-1])}]"])

    def output(self, name, width):
        """Output ports of an element, of which none was used before."""
        first = self.outputs.get(name, 0)
        if width == 1 and first == 0 or self.odd():
            port = self.port()
            if "[" in port:
                self.outputs[name] = 4
                return port
        self.outputs[name] = first + width
        if width == 1:
            return f"[{first}]" if first or self.r.random() < 0.2 else ""
        every = [str(first + n) for n in range(width)]
        return self.r.choice([f"[{','.join(every)}]", f"[{', '.join(every)}]", f"[{first}-{every[-1]}]", f"[{','.join(every[::-1])}]"])

    def free(self, width, inputs, outputs):
        """An element that may have any ports, with ports at the sides where it is connected."""
        r = self.r
        if inputs or self.odd():
            self.put(self.ports(width))
        draw = r.random()
        name = f"anonymous {len(self.out)}"
        if draw < 0.5 and self.names:
            name = r.choice(self.names)
            self.put(name)
        elif draw < 0.6 and self.odd():
            self.put(r.choice(["input", "output"]))
        elif draw < 0.75:
            name = self.fresh()
            self.put(name, " :: ")
            self.class_part()
            self.names.append(name)
        else:
            self.class_part()
        if outputs or self.odd():
            self.put(self.output(name, width))

    def compound_use(self, width):
        """An element of a compound class with this number of inputs and outputs; False if there is none."""
        r = self.r
        fitting = [n for n, forms in self.forms.items() if any(form[0] == width for form in forms)]
        if not fitting or r.random() < 0.4:
            return False
        name = r.choice(fitting)
        if r.random() < 0.4:
            element = self.fresh()
            self.put(element, " :: ")
        self.put(name, *self.fitting_arguments(r.choice([f for f in self.forms[name] if f[0] == width])[1]))
        return True

    def fitting_arguments(self, formals):
        """Arguments for parameters of a compound element."""
        r = self.r
        if r.random() < 0.1:
            return self.arguments(1)
        texts = []
        for keyword in formals:
            if keyword == "__REST__":
                texts += [self.argument() for _ in range(r.choice([0, 1, 2]))]
            elif r.random() < 0.97:
                texts.append(f"{keyword} {self.argument()}".strip())
        if any(formals) and r.random() < 0.3:
            r.shuffle(texts)
        return ["(", ", ".join(texts), ")"] if texts or r.random() < 0.1 else []

    def group(self, width):
        self.put("(")
        for at in range(width):
            self.put(*(["; "] if at else []))
            self.through(at)
        if self.r.random() < 0.2:
            self.put("; ")
            self.declaration()
        self.put(")")

    def through(self, port):
        """A chain from an input to an output of the scope."""
        r = self.r
        begin = r.choice([f"[{port}]", f"input[{port}]", f"input [{port}]", "input" if port == 0 else f"input[{port}]",
                          "" if port == 0 else f"[{port}]"])
        end = r.choice([f"[{port}]", f"[{port}]output", "output" if port == 0 else f"[{port}] output", "" if port == 0 else f"[{port}]"])
        self.put(begin, " -> ")
        for _ in range(r.choice([0, 0, 1, 1, 2])):
            self.stage(1, True, True)
            self.put(" -> ")
        self.put(end)

    def stage(self, width, inputs, outputs):
        """The part of a chain between two arrows."""
        r = self.r
        draw = r.random()
        if draw < 0.4 and inputs and outputs and self.compound_use(width):
            return
        if draw < 0.5 and inputs and outputs and self.deep < 3:
            self.deep += 1
            self.group(width)
            self.deep -= 1
        elif draw < 0.65 and (inputs != outputs or width > 1):
            for item in range(width if width > 1 else 2):
                self.put(*([", "] if item else []))
                self.free(1, inputs, outputs)
        else:
            self.free(width, inputs, outputs)

    def connection(self):
        r = self.r
        width = r.choice([1, 1, 1, 1, 2, 2, 3])
        stages = r.choice([2, 2, 2, 3, 3, 4])
        for at in range(stages):
            if at:
                self.put(r.choice([" => ", "=>"] if width > 1 and not self.odd() else [" -> ", "->", " -> ", " => "]))
            self.stage(width, at > 0, at < stages - 1)

    def formals(self):
        """Text of parameters, their names and their keywords."""
        r = self.r
        out, names, keywords = [], [], []
        for _ in range(r.choice([0, 0, 1, 1, 2, 3])):
            names.append(r.choice(VARIABLES if self.odd() else [v for v in VARIABLES if v not in names]))
        keyword = ""
        for at, name in enumerate(names):
            out += [", "] if at else []
            if keyword or r.random() < 0.25:
                keyword = r.choice([k for k in ("K", "L", "M") if k not in keywords] + ["__REST__"] * 2 * (at == len(names) - 1))
            out += [f"{keyword} "] if keyword else []
            keywords.append(keyword)
            out.append(f"${name}")
        return (out + [" | "] if names or r.random() < 0.1 else []), names, keywords

    def compound(self):
        """A compound element; its numbers of ports and keywords, by definition."""
        r = self.r
        self.put("{ ")
        forms = []
        for at in range(r.choice([1, 1, 1, 2, 3])):
            self.put(*([r.choice([" || ", "\n||\n"])] if at else []))
            if at and r.random() < 0.2:
                self.put("...")
                break
            formals, names, keywords = self.formals()
            inner = Scope(r, self.wrong, self.depth + 1, (), self.classes, self.variables + names)
            inner.forms = dict(self.forms)
            inner.put(*formals)
            width = r.choice([0, 1, 1, 1, 1, 2])
            for port in range(width):
                inner.through(port)
                inner.put("; ")
            inner.statements(r.choice([0, 0, 1, 2]))
            self.put(*inner.out)
            forms.append((width, keywords))
        self.put(" }")
        return forms

    def elementclass(self):
        r = self.r
        name = r.choice(COMPOUNDS)
        self.put("elementclass ", name, " ")
        draw = r.random()
        if draw < 0.05:
            self.put("Idle")
            self.classes.append(name)
            self.forms.pop(name, None)
        elif draw < 0.15:
            other = r.choice([*self.forms] or ["Idle"])
            self.put(other)
            self.forms[name] = self.forms.get(other, [])
        else:
            self.forms[name] = self.compound()

    def define(self):
        r = self.r
        word = r.choice(["define", "define", "var"]) if r.random() < self.wrong else "define"
        self.put(word, "(")
        for at in range(r.choice([1, 1, 2])):
            name = r.choice(VARIABLES)
            self.put(*([", "] if at else []), f"${name} ", self.argument())
            self.variables.append(name)
        self.put(")")


def language_case(seed, number):
    """The configuration that has this number under a seed."""
    r = Draw(f"language {seed} {number}")
    scope = Scope(r, r.choice([0, 0, 0, 0.03, 0.1]), 0, (), (), ())
    scope.statements(r.choice([1, 2, 3, 5, 8]))
    options = ["-q"]
    for name in ("flatconfig", "config", "list", "requirements", "*.class", "*.config", "*.name"):
        options += ["-h", name]
    if r.random() < 0.1:
        options += [r.choice(["x=7", "y=K 2", "z=", "w1=a,b"])]
    lib = 'elementclass Lib { input -> Idle -> output }\n'
    return Text(tuple(t for t in scope.out if t), tuple(options), (("lib.click", lib.encode()),))
