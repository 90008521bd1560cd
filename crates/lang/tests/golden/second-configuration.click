q :: Queue(10)(20);
