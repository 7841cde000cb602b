package etcd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/millrace/millrace/internal/server/store"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
)

// member is one run of the embedded etcd: from its start until it is stopped or fails.
//
// On a fatal error, usually a failed write to its disk, etcd would end the process. Here only the goroutine that met
// the error ends, with all locks that it holds, so calls of the member may hang from then on. Callers do not wait for
// them.
type member struct {
	log    *slog.Logger
	server *etcdserver.EtcdServer
	kv     mvcc.WatchableKV

	// quiet drops etcd's log output while it is being stopped.
	quiet atomic.Bool

	// broken is closed when etcd has failed; cause says why.
	breaking sync.Once
	broken   <-chan struct{}
	cause    error
	life     context.Context // ends when broken is closed
	end      context.CancelFunc

	mu      sync.Mutex // guards stopped, and orders callers.Add before callers.Wait
	stopped bool
	callers sync.WaitGroup // callers that use kv, which must not be closed meanwhile
}

func newMember(log *slog.Logger) *member {
	m := &member{log: log}
	m.life, m.end = context.WithCancel(context.Background())
	m.broken = m.life.Done()
	return m
}

// releaseTime is how long a failed member may take to release its files and locks.
const releaseTime = 2 * time.Second

// fail records that etcd has failed.
func (m *member) fail(err error) {
	m.breaking.Do(func() {
		m.cause = fmt.Errorf("%w: %w", errBroken, err)
		if errors.Is(err, syscall.ENOSPC) {
			m.cause = fmt.Errorf("etcd has stopped: %w: %w", store.ErrNoSpace, err)
		}
		m.log.Error("etcd has stopped and is being started again", "err", err)
		m.quiet.Store(true)
		m.end()
	})
}

// dropPages releases the pages of the database that were read.
func (m *member) dropPages() {
	db, err := database(m.server)
	if err == nil {
		err = dropPages(db)
	}
	if err != nil {
		m.log.Debug("pages of the database stay resident", "err", err)
	}
}

// alive returns the reason why the member cannot be asked, or nil.
func (m *member) alive() error {
	select {
	case <-m.broken:
		return m.cause
	default:
		return nil
	}
}

// enter admits a caller, which must call leave.
func (m *member) enter() error {
	if err := m.alive(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopped {
		return store.ErrClosed
	}
	m.callers.Add(1)
	return nil
}

func (m *member) leave() { m.callers.Done() }

// bound returns a context that also ends with the member.
func (m *member) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(m.life, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// shut stops the member when no caller uses it any more. A member that has failed may never stop; it is abandoned.
func (m *member) shut() error {
	m.mu.Lock()
	m.stopped = true
	m.mu.Unlock()
	m.quiet.Store(true)
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.callers.Wait()
		if m.server != nil {
			m.server.HardStop()
		}
	}()
	select {
	case <-done:
		return nil
	case <-m.broken:
	}
	late := time.NewTimer(releaseTime)
	defer late.Stop()
	select {
	case <-done:
		return nil
	case <-late.C:
		return m.cause
	}
}
