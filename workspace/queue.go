package workspace

import (
	"context"
	"runtime"
	"sync"
)

// workers is the largest number of goroutines that work on a tree.
const workers = 16

// queue distributes tasks to workers, the newest first. The traversal is thus depth-first, and
// few directories are open at a time.
type queue[T any] struct {
	mu    sync.Mutex
	ready sync.Cond
	stack []T
	busy  int // workers that may still add tasks
	err   error
}

func newQueue[T any](tasks []T) *queue[T] {
	q := &queue[T]{stack: tasks}
	q.ready.L = &q.mu
	return q
}

func (q *queue[T]) push(tasks ...T) {
	q.mu.Lock()
	q.stack = append(q.stack, tasks...)
	q.mu.Unlock()
	if len(tasks) > 1 {
		q.ready.Broadcast()
	} else {
		q.ready.Signal()
	}
}

// pop waits for a task. It returns false if no more tasks will come.
func (q *queue[T]) pop() (t T, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.busy--
	for len(q.stack) == 0 {
		if q.busy == 0 || q.err != nil {
			q.ready.Broadcast()
			return t, false
		}
		q.ready.Wait()
	}
	t = q.stack[len(q.stack)-1]
	q.stack = q.stack[:len(q.stack)-1]
	q.busy++
	return t, true
}

// fail ends the queue and drops the tasks that have not begun.
func (q *queue[T]) fail(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err == nil {
		q.err = err
	}
	q.stack = nil
	q.ready.Broadcast()
}

// run works until no task is left or one fails. start returns the function that does the tasks
// of one goroutine, and its cleanup.
func (q *queue[T]) run(ctx context.Context, start func() (do func(T) error, cleanup func())) error {
	q.busy = min(runtime.GOMAXPROCS(0), workers)
	var wg sync.WaitGroup
	for range q.busy {
		wg.Go(func() {
			do, cleanup := start()
			defer cleanup()
			for {
				t, ok := q.pop()
				if !ok {
					return
				}
				err := ctx.Err()
				if err == nil {
					err = do(t)
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
