package etcd

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/config"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/features"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.uber.org/zap"
	"golang.org/x/crypto/bcrypt"

	"github.com/millrace/millrace/server/store"
)

// EmbedOptions says where the embedded etcd keeps its data. The zero value of all but Dir is good.
type EmbedOptions struct {
	// Dir is the data folder, in etcd's own layout. It is made if it does not exist.
	Dir string
	// QuotaBytes is how large the database may become before writes are refused with store.ErrNoSpace; zero means 8 GiB.
	QuotaBytes int64
	// ReserveBytes is how much of the disk is left free: writes are refused with store.ErrNoSpace before etcd would meet
	// a full disk, after which it must be started again. Zero means 96 MiB, enough for two segments of its log and what its database grows by in one go; less
	// than zero means that nobody looks.
	ReserveBytes int64
	// MaxRequestBytes is the largest write; zero means 1.5 MiB, as in etcd.
	MaxRequestBytes uint
	// Logger gets etcd's warnings and errors. Nil discards them.
	Logger *slog.Logger
}

// The member's own address is written into a new data folder, and nobody ever listens there. It is etcd's default, so
// that etcd itself can be started on the folder.
const (
	memberName = "default"
	peerURL    = "http://127.0.0.1:2380"
)

// The segment of the log that holds the last snapshot is read, twice, at each start, and two segments are allocated in
// advance. Etcd's 64 MB make a start take 0.5 s of CPU after some use, and an empty folder take 128 MB. Etcd has one setting for the
// process: it is made when a process embeds an etcd for the first time.
var useSmallSegments = sync.OnceFunc(func() { wal.SegmentSizeBytes = 16 << 20 })

// Embed starts an etcd inside this process, ready for use when Embed returns. It fails if another process, or another
// store of this one, uses the folder.
func Embed(ctx context.Context, o EmbedOptions) (*Store, error) {
	useSmallSegments()
	o.QuotaBytes = cmp.Or(o.QuotaBytes, 8<<30)
	o.ReserveBytes = cmp.Or(o.ReserveBytes, 96<<20)
	o.MaxRequestBytes = cmp.Or(o.MaxRequestBytes, 3<<19)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	lock, err := lockFolder(o.Dir)
	if err != nil {
		return nil, err
	}
	m, err := startMember(ctx, o)
	if err != nil {
		lock.Close()
		return nil, fmt.Errorf("data folder %s: %w", o.Dir, err)
	}
	e := &embedded{options: o, lock: lock, closing: make(chan struct{}), full: make(chan struct{}, 1), commits: make(chan struct{}, 1), present: m}
	e.lookAtDisk()
	s := newStore(e, "", o.Logger, e.newest)
	s.background.Go(e.tend)
	return s, nil
}

func startMember(ctx context.Context, o EmbedOptions) (*member, error) {
	setDatabaseOptions()
	m := newMember(o.Logger)
	cfg, err := serverConfig(o, newZap(&bridge{log: o.Logger, quiet: &m.quiet}, m.fail))
	if err != nil {
		return nil, err
	}
	select {
	case starting <- struct{}{}:
		defer func() { <-starting }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	// A damaged folder makes etcd end the goroutine that it started in, by way of fail.
	type outcome struct {
		server *etcdserver.EtcdServer
		err    error
	}
	made := make(chan outcome, 1)
	go func() {
		server, err := etcdserver.NewServer(cfg)
		made <- outcome{server, err}
	}()
	select {
	case got := <-made:
		if got.err != nil {
			return nil, got.err
		}
		m.server = got.server
	case <-m.broken:
		return nil, m.cause
	}
	m.server.Start()
	if err := m.lead(ctx); err != nil {
		return nil, errors.Join(err, m.shut())
	}
	if n := len(m.server.Cluster().Members()); n != 1 {
		return nil, errors.Join(fmt.Errorf("belongs to an etcd cluster of %d members", n), m.shut())
	}
	m.kv = m.server.KV()
	m.dropPages() // a start reads all of it
	return m, nil
}

// serverConfig sets etcd up for a cluster of one that has no clients but this process.
func serverConfig(o EmbedOptions, log *zap.Logger) (config.ServerConfig, error) {
	peers, err := types.NewURLs([]string{peerURL})
	if err != nil {
		return config.ServerConfig{}, err
	}
	cfg := config.ServerConfig{
		Name:                memberName,
		DataDir:             o.Dir,
		PeerURLs:            peers,
		InitialPeerURLsMap:  types.URLsMap{memberName: peers},
		InitialClusterToken: rand.Text(), // the member's identity is made from it
		NewCluster:          true,
		Logger:              log,
		ServerFeatureGate:   features.NewDefaultServerFeatureGate(memberName, log),
		BcryptCost:          uint(bcrypt.DefaultCost),
		// Nobody waits for heartbeats. The fewer ticks, the less is done while nothing happens; elections do not wait for
		// them either, see lead.
		TickMs:        100,
		ElectionTicks: 2,
		// There are no followers that would need old entries, so that none are kept in memory. What was written since the
		// last snapshot is read again at the next start.
		SnapshotCount:          5000,
		SnapshotCatchUpEntries: 16,
		MaxSnapFiles:           1,
		MaxWALFiles:            2,
		QuotaBackendBytes:      o.QuotaBytes,
		BackendFreelistType:    bbolt.FreelistMapType,
		MaxRequestBytes:        o.MaxRequestBytes,
		MaxTxnOps:              128,
		BackendBatchInterval:   commitEvery,
		BackendBatchLimit:      commitWrites,
		// Nobody reads about slow requests here; a limit of zero would make a line of each.
		WarningApplyDuration:        math.MaxInt64,
		WarningUnaryRequestDuration: math.MaxInt64,
	}
	return cfg, nil
}

var errBroken = fmt.Errorf("etcd has stopped: %w", store.ErrUnavailable)
