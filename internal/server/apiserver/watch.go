package apiserver

import (
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace/millrace/internal/server/apiserver/internal/query"
	"github.com/millrace/millrace/internal/server/apiserver/internal/status"
	"github.com/millrace/millrace/internal/server/apiserver/internal/stream"
	"github.com/millrace/millrace/internal/server/registry"
)

func (c *call) watch() error {
	o, err := query.ParseList(withWatch(c), c.Face)
	if err != nil {
		return err
	}
	q := registry.WatchQuery{
		Selection: registry.Select(c.Face, c.t.Namespace, c.t.Name, o.Labels, o.Fields),
		Freshness: o.Fresh,
		Initial:   o.InitialEvents != nil && *o.InitialEvents,
	}
	q.Stored = c.s.o.Replays
	st := &stream.Stream{
		Answer: &c.Answer, Meter: c.meter, Ends: c.s.ends, Sockets: &c.s.sockets,
		Bookmarks: o.Bookmarks, Mark: q.Initial, Period: c.s.o.BookmarkPeriod, Timeout: c.watchTimeout(o),
	}
	for _, r := range o.Fields.Requirements() {
		st.Selected = append(st.Selected, r.Field)
	}
	if err := st.Prepare(); err != nil {
		return err
	}
	w, err := c.openWatch(q, st)
	switch {
	case apierrors.IsResourceExpired(err):
		// A watch from an expired version starts with status 200 and then sends the error: clients expect it there.
		st.Refuse(status.Of(err))
		return nil
	case err != nil:
		return err
	}
	defer w.Close()
	if c.releaseSeat != nil {
		c.releaseSeat()
	}
	st.Serve(w)
	return nil
}

func (c *call) openWatch(q registry.WatchQuery, st *stream.Stream) (w *registry.Watcher, err error) {
	if c.narrow {
		w, st.Changed, err = c.watchVisible(q)
		return w, err
	}
	return c.storage.Watch(c.Request.Context(), q)
}

func withWatch(c *call) map[string][]string {
	q := c.Request.URL.Query()
	q.Set("watch", "true")
	return q
}

// longestWatch, in seconds, is practically unlimited and fits into a time.Duration.
const longestWatch = 365 * 24 * 3600

// watchTimeout returns the client's timeout, or a random one of at least the server's minimum, so that watches that
// began together do not end together.
func (c *call) watchTimeout(o query.List) time.Duration {
	if o.TimeoutSeconds != nil && *o.TimeoutSeconds > 0 {
		return time.Duration(min(*o.TimeoutSeconds, longestWatch)) * time.Second
	}
	least := c.s.o.MinRequestTimeout
	return least + time.Duration(rand.Int64N(int64(least)))
}
