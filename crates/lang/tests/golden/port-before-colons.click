q[1] :: Queue;
