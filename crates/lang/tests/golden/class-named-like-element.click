q :: Queue;
elementclass q { input -> output }
