package fairness

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// Handlers are the dumps, by their paths.
func (d *Dispatcher) Handlers() map[string]http.Handler {
	const at = "/debug/api_priority_and_fairness/"
	dump := func(write func(w io.Writer, r *http.Request)) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			table := tabwriter.NewWriter(w, 8, 0, 1, ' ', 0)
			write(table, r)
			_ = table.Flush() // the client has gone
		})
	}
	return map[string]http.Handler{
		at + "dump_priority_levels": dump(d.dumpLevels), at + "dump_queues": dump(d.dumpQueues), at + "dump_requests": dump(d.dumpRequests),
	}
}

// dumped calls a func for all levels, and after each those of it for other servers, with the names that dumps have for
// them.
func (s *snapshot) dumped(do func(name string, l *Level)) {
	for _, l := range s.levels {
		do(l.name, l)
		l.mu.Lock()
		servers := maps.Clone(l.servers)
		l.mu.Unlock()
		for _, group := range slices.Sorted(maps.Keys(servers)) {
			do(l.name+"/"+group, servers[group])
		}
	}
}

func row(w io.Writer, columns ...any) {
	words := make([]string, len(columns))
	for i, c := range columns {
		words[i] = fmt.Sprint(c)
	}
	fmt.Fprintln(w, strings.Join(words, ",\t"))
}

func (d *Dispatcher) dumpLevels(w io.Writer, _ *http.Request) {
	row(w, "PriorityLevelName", "ActiveQueues", "IsIdle", "IsQuiescing", "WaitingRequests", "ExecutingRequests", "DispatchedRequests",
		"RejectedRequests", "TimedoutRequests", "CancelledRequests")
	d.now.Load().dumped(func(name string, l *Level) {
		l.mu.Lock()
		defer l.mu.Unlock()
		active := 0
		for _, q := range l.queues {
			if len(q.waiting) > 0 {
				active++
			}
		}
		row(w, name, active, l.waiting+l.executing == 0, l.gone, l.waiting, l.executing, l.tally.dispatched, l.tally.rejected, l.tally.timedOut, l.tally.cancelled)
	})
}

func (d *Dispatcher) dumpQueues(w io.Writer, _ *http.Request) {
	row(w, "PriorityLevelName", "Index", "PendingRequests", "ExecutingRequests", "SeatsInUse", "NextDispatchR", "InitialSeatsSum", "MaxSeatsSum", "TotalWorkSum")
	d.now.Load().dumped(func(name string, l *Level) {
		l.mu.Lock()
		defer l.mu.Unlock()
		for i, q := range l.queues {
			if l.queuing.queues == 0 {
				break
			}
			initial, most, work := 0, 0, 0.0
			for _, waiting := range q.waiting {
				initial, most, work = initial+waiting.work.Seats, most+waiting.work.most(), work+waiting.work.cost(guess)
			}
			row(w, name, i, len(q.waiting), q.executing, q.seats, seatSeconds(q.next), initial, most, seatSeconds(work))
		}
	})
}

func seatSeconds(v float64) string { return strconv.FormatFloat(v, 'f', 8, 64) + "ss" }

func (d *Dispatcher) dumpRequests(w io.Writer, r *http.Request) {
	details := r.URL.Query().Get("includeRequestDetails") == "1"
	head := []any{"PriorityLevelName", "FlowSchemaName", "QueueIndex", "RequestIndexInQueue", "FlowDistingsher", "ArriveTime", "InitialSeats", "FinalSeats", "AdditionalLatency", "StartTime"}
	if details {
		head = append(head, "UserName", "Verb", "APIPath", "Namespace", "Name", "APIVersion", "Resource", "SubResource")
	}
	row(w, head...)
	d.now.Load().dumped(func(name string, l *Level) {
		l.mu.Lock()
		defer l.mu.Unlock()
		for i, q := range l.queues {
			for j, waiting := range q.waiting {
				a := waiting.detail
				columns := []any{name, waiting.schema.name, i, j, a.User, waiting.since.UTC().Format(time.RFC3339Nano), waiting.work.Seats, waiting.work.Final, waiting.work.After, ""}
				if details {
					columns = append(columns, a.User, a.Verb, a.Path, a.Namespace, a.Name, a.APIVersion, a.Resource, a.Subresource)
				}
				row(w, columns...)
			}
		}
	})
}
