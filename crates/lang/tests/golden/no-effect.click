q :: Queue;
q;
