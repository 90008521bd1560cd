elementclass Bad { input :: Idle; input -> output }
