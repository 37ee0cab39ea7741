package workspace

import (
	"context"
	"runtime"
	"sync"
)

// task is a directory to scan or, with dir, files of it to read.
type task struct {
	n     *node
	dir   *sharedDir
	files []int32 // which entries of n
}

// queue gives tasks to workers, the newest first: that keeps few directories open
// and goes through the tree in depth.
type queue struct {
	mu    sync.Mutex
	ready sync.Cond
	stack []task
	busy  int // workers that may still add tasks
	err   error
}

func newQueue() *queue {
	q := &queue{}
	q.ready.L = &q.mu
	return q
}

func (q *queue) push(tasks ...task) {
	q.mu.Lock()
	q.stack = append(q.stack, tasks...)
	q.mu.Unlock()
	if len(tasks) > 1 {
		q.ready.Broadcast()
	} else {
		q.ready.Signal()
	}
}

// pop waits for a task. It returns false if there will be no more.
func (q *queue) pop() (task, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.busy--
	for len(q.stack) == 0 {
		if q.busy == 0 || q.err != nil {
			q.ready.Broadcast()
			return task{}, false
		}
		q.ready.Wait()
	}
	t := q.stack[len(q.stack)-1]
	q.stack = q.stack[:len(q.stack)-1]
	q.busy++
	return t, true
}

// fail ends the queue: tasks not yet begun are dropped.
func (q *queue) fail(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err == nil {
		q.err = err
	}
	for _, t := range q.stack {
		if t.dir != nil {
			t.dir.release()
		}
	}
	q.stack = nil
	q.ready.Broadcast()
}

// run works until no task is left or one fails.
func (q *queue) run(ctx context.Context, do func(*worker, task) error) error {
	q.busy = min(runtime.GOMAXPROCS(0), workers)
	var wg sync.WaitGroup
	for range q.busy {
		wg.Go(func() {
			w := &worker{dirents: make([]byte, direntBytes)}
			for {
				t, ok := q.pop()
				if !ok {
					return
				}
				err := ctx.Err()
				if err == nil {
					err = do(w, t)
				} else if t.dir != nil {
					t.dir.release()
				}
				if err != nil {
					q.fail(err)
				}
			}
		})
	}
	wg.Wait()
	return q.err
}

// worker has the buffers that one goroutine keeps from task to task.
type worker struct {
	dirents []byte
	content []byte
	found   []task
	reads   []int32
}
