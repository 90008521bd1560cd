Idle -> { input -> output || ... } -> Discard;
