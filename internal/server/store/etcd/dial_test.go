package etcd

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/store/etcd/etcdtest"
	"github.com/millrace/millrace/internal/server/store/storetest"
)

func dial(t testing.TB, server *etcdtest.Server, prefix string) *Store {
	t.Helper()
	s, err := Dial(t.Context(), Options{Endpoints: []string{server.URL}, Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestEtcdClusterKeepsTheGuaranteesOfAStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) store.Store { return dial(t, etcdtest.Start(t, etcdtest.Options{}), "") })
}

func TestPrefixKeepsStoresInOneClusterApart(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{})
	one, two := dial(t, c, "/one"), dial(t, c, "/two")
	defer one.Close()
	defer two.Close()
	ctx := t.Context()
	rev, err := one.Create(ctx, "/a", []byte("1"), 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := two.Get(ctx, "/a", store.GetOptions{}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("two sees one's key: %v", err)
	}
	if _, err := two.Create(ctx, "/b", []byte("2"), 0); err != nil {
		t.Fatal(err)
	}
	page, err := one.List(ctx, "", store.ListOptions{})
	if err != nil || len(page.Entries) != 1 || page.Entries[0].Key != "/a" {
		t.Errorf("one holds %v, %v", page, err)
	}
	enough := errors.New("enough")
	err = two.Watch(ctx, "/", rev, func(b store.Batch) error {
		if len(b.Events) == 0 {
			return nil
		}
		if key := b.Events[0].Key; key != "/b" {
			t.Errorf("two sees %s", key)
		}
		return enough
	})
	if err != enough {
		t.Error(err)
	}
}

func TestClusterThatIsNotThereIsNamed(t *testing.T) {
	t.Parallel()
	_, err := Dial(t.Context(), Options{
		Endpoints: []string{"unix:///nowhere/etcd"}, DialTimeout: 300 * time.Millisecond,
	})
	if !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "unix:///nowhere/etcd cannot be reached") {
		t.Errorf("dial: %v", err)
	}
}

func TestCallsFailDuringAnOutageAndWatchesContinueAfterIt(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{})
	s := dial(t, c, "")
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	events, placed, ended := make(chan store.Event, 10), make(chan bool, 1), make(chan error, 1)
	go func() {
		ended <- s.Watch(ctx, "/", 0, func(b store.Batch) error {
			for _, e := range b.Events {
				events <- e
			}
			select {
			case placed <- true:
			default:
			}
			return nil
		})
	}()
	<-placed
	rev, err := s.Create(ctx, "/a", []byte("1"), 0)
	if err != nil {
		t.Fatal(err)
	}
	if e := <-events; e.Revision != rev {
		t.Errorf("event is %v", e)
	}

	c.Stop()
	if _, err := s.Update(ctx, "/a", []byte("2"), rev, 0); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("update without a cluster: %v", err)
	}
	short, cancelShort := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancelShort()
	if _, err := s.Get(short, "/a", store.GetOptions{}); !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("get without a cluster: %v", err)
	}

	c.Restart(t)
	second := retry(ctx, t, func() (store.Revision, error) { return s.Update(ctx, "/a", []byte("2"), rev, 0) })
	select {
	case e := <-events:
		if e.Revision != second {
			t.Errorf("event is %v, want revision %d", e, second)
		}
	case err := <-ended:
		// A watch may also end with ErrUnavailable; its owner then starts it again.
		if !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("watch ended with %v", err)
		}
	}
}

// retry repeats a write while the cluster is unavailable.
func retry(ctx context.Context, t *testing.T, call func() (store.Revision, error)) store.Revision {
	t.Helper()
	for {
		rev, err := call()
		if err == nil {
			return rev
		}
		if !errors.Is(err, store.ErrUnavailable) || ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

func TestDialLogsAtOnceThatNoServerAnswers(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections and never answers
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	for name, c := range map[string]struct{ endpoint, why string }{
		"nobody listens":       {"http://127.0.0.1:1", "connection refused"},
		"somebody is silent":   {"http://" + silent.Addr().String(), "deadline exceeded"},
		"there is no such one": {"http://etcd.invalid:2379", "etcd.invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var said bytes.Buffer
			began := time.Now()
			_, err := Dial(t.Context(), Options{Endpoints: []string{c.endpoint}, DialTimeout: attemptTimeout + time.Second, Logger: slog.New(slog.NewTextHandler(&said, nil))})
			if !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "no answer within 2s") {
				t.Errorf("the error is %v", err)
			}
			if took := time.Since(began); took > time.Minute {
				t.Errorf("it came after %v", took)
			}
			line, _, _ := strings.Cut(said.String(), "\n")
			if !strings.Contains(line, "etcd does not answer; trying again") || !strings.Contains(line, c.why) || !strings.Contains(line, c.endpoint) {
				t.Errorf("it says %q", said.String())
			}
		})
	}
}

func TestDialLogsAgainAndAgainWhyNoServerAnswersAndThenEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		o := Options{Endpoints: []string{"unix:///nowhere/etcd"}, DialTimeout: time.Minute, Logger: slog.New(slog.NewTextHandler(&said, nil))}
		silent := func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}
		began := time.Now()
		if err := o.reach(t.Context(), silent); !errors.Is(err, store.ErrUnavailable) || time.Since(began) != time.Minute {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		lines := strings.Split(strings.TrimSpace(said.String()), "\n")
		if len(lines) < 9 || len(lines) > 12 {
			t.Errorf("in a minute there were %d lines", len(lines))
		}
		for _, line := range lines {
			if !strings.Contains(line, "etcd does not answer; trying again") || !strings.Contains(line, "unix:///nowhere/etcd") || !strings.Contains(line, "error=") {
				t.Errorf("it says %q", line)
			}
		}
	})
}
