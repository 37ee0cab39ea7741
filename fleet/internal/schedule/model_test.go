package schedule_test

import (
	"container/heap"
	"sync"
	"time"

	"github.com/dalsegno/segno/fleet/internal/schedule"
)

// cost is what one statement takes of the modelled server.
type cost struct {
	cpu  time.Duration // of one of its cores
	each time.Duration // of a core, for each job of the statement
	sync bool          // it ends when the write-ahead log is on disk
}

// The costs on a core of a server. The section fleet of bench measures them; docs/fleet-sizing.md has its figures.
var (
	costPoll     = cost{cpu: 65 * time.Microsecond}                                            // River's fetch that finds nothing
	costFetch    = cost{cpu: 250 * time.Microsecond, each: 120 * time.Microsecond, sync: true} // River's fetch of jobs
	costComplete = cost{cpu: 200 * time.Microsecond, each: 60 * time.Microsecond, sync: true}  // a batch of completed jobs
	costInsert   = cost{cpu: 735 * time.Microsecond, sync: true}                               // one job, in a transaction
	costSchedule = cost{cpu: 300 * time.Microsecond, each: 100 * time.Microsecond, sync: true} // the leader makes jobs available
	costRead     = cost{cpu: 150 * time.Microsecond}                                           // of a row, in a transaction
	costChange   = cost{cpu: 295 * time.Microsecond, sync: true}                               // the same, changed
	costLoad     = cost{cpu: 400 * time.Microsecond}                                           // the line of a thread
	costCommit   = cost{cpu: 420 * time.Microsecond, sync: true}                               // a step of 2 KB
	costWake     = cost{cpu: 1150 * time.Microsecond, sync: true}                              // a commit with a job in its transaction
)

const (
	tripTime = 500 * time.Microsecond // of a statement between two machines of one data centre
	syncTime = time.Millisecond       // until the write-ahead log is on disk
)

// server is a modelled PostgreSQL: statements queue for its cores.
type server struct {
	mu    sync.Mutex
	began time.Time
	free  []time.Duration // when each core has finished the statements that were sent to it
	busy  time.Duration   // of all cores
	calls int
}

// execute returns when a statement about n jobs has ended.
func (s *server) execute(c cost, n int) {
	cpu := c.cpu + time.Duration(n)*c.each
	s.mu.Lock()
	now := time.Since(s.began)
	core := 0
	for i, free := range s.free {
		if free < s.free[core] {
			core = i
		}
	}
	end := max(now, s.free[core]) + cpu
	s.free[core] = end
	s.busy += cpu
	s.calls++
	s.mu.Unlock()
	if c.sync {
		end += syncTime
	}
	time.Sleep(end - now + tripTime)
}

// totals returns the time of all cores, and the number of statements.
func (s *server) totals() (busy time.Duration, calls int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.busy, s.calls
}

// queuedJob is a row of River's table.
type queuedJob struct {
	schedule.Job
	thread int32
	at     time.Duration // its scheduled_at
}

// jobHeap is the index in whose order River fetches jobs.
type jobHeap []queuedJob

func (h jobHeap) Len() int { return len(h) }
func (h jobHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].ID < h[j].ID
}
func (h jobHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *jobHeap) Push(x any)   { *h = append(*h, x.(queuedJob)) }
func (h *jobHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// The intervals of River 0.51 that its configuration does not change.
const (
	scheduleInterval = 5 * time.Second        // between two runs of the leader's scheduler, which makes jobs available
	scheduleBatch    = 10_000                 // jobs of one of its statements
	completeInterval = 250 * time.Millisecond // a client completes its jobs together
)

// queue is River's table of jobs, and its notifications.
type queue struct {
	mu        sync.Mutex
	last      int64
	available jobHeap
	scheduled jobHeap
	listeners map[*worker]bool
	notify    time.Duration         // between two notifications of a client
	notified  map[any]time.Duration // when a client last sent a notification
}

// insert adds a job in the transaction of its caller, which is a process with a client of River. The client sends a notification
// unless it has just sent one: see maybeNotifyInsertForQueues in River's client.go.
func (q *queue) insert(by any, now time.Duration, j queuedJob) (id int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.last++
	j.ID = q.last
	if j.at > now {
		heap.Push(&q.scheduled, j)
		return j.ID
	}
	heap.Push(&q.available, j)
	if last, ok := q.notified[by]; !ok || now-last > q.notify {
		q.notified[by] = now
		q.notifyAll()
	}
	return j.ID
}

// notifyAll wakes all workers, as NOTIFY does.
func (q *queue) notifyAll() {
	for w := range q.listeners {
		w.wake()
	}
}

// again puts a job back that a worker returned. River makes a job that returns soon available at once, and others wait for the
// leader's scheduler.
func (q *queue) again(j queuedJob, now, pause time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	j.at = now + pause
	if pause <= scheduleInterval {
		heap.Push(&q.available, j)
	} else {
		heap.Push(&q.scheduled, j)
	}
}

// fetch returns up to n jobs.
func (q *queue) fetch(now time.Duration, n int) (jobs []queuedJob) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(jobs) < n && len(q.available) > 0 && q.available[0].at <= now {
		jobs = append(jobs, heap.Pop(&q.available).(queuedJob))
	}
	return jobs
}

// schedule makes the jobs of the next interval available, and returns their number. Workers find them when they poll.
func (q *queue) schedule(now time.Duration) (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	isDue := false
	for n < scheduleBatch && len(q.scheduled) > 0 && q.scheduled[0].at <= now+scheduleInterval {
		j := heap.Pop(&q.scheduled).(queuedJob)
		isDue = isDue || j.at <= now
		heap.Push(&q.available, j)
		n++
	}
	if isDue {
		q.notifyAll()
	}
	return n
}

func (q *queue) lengths() (available, scheduled int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.available), len(q.scheduled)
}
