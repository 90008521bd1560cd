elementclass A { KEY $a, $b | input -> output }
elementclass B { __REST__ $r, KEY $k | input -> output }
elementclass C { $a, $a | input -> output }
