elementclass Any { $class | input -> $class -> output }
x :: $class;
