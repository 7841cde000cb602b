package etcd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"time"
	"unsafe"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/storage/wal"
)

// Etcd hands out neither the files that it has open nor how it opens them. What this file reaches into is tested against the version of etcd
// that is used.

// databaseOptions are those with which etcd opens its databases.
//
//go:linkname databaseOptions go.etcd.io/etcd/server/v3/storage/backend.boltOpenOptions
var databaseOptions *bbolt.Options

// setDatabaseOptions lets databases be opened by way of databases.
var setDatabaseOptions = sync.OnceFunc(func() {
	databaseOptions.OpenFile = databases.open
	// All of a database of 600 MB would be resident at once: see dropPages.
	databaseOptions.MmapFlags = 0
	// Etcd leaves the list of free pages to be found out at the next start, by a walk through all of the database: half of a start on
	// 600 MB. The list is short, and commits are few.
	databaseOptions.NoFreelistSync = false
})

// databases are the database files that etcd has opened in this process.
var databases openFiles

type openFiles struct {
	mu     sync.Mutex
	byPath map[string][]*os.File // guarded by mu
}

func (o *openFiles) open(path string, flag int, mode os.FileMode) (*os.File, error) {
	f, err := os.OpenFile(path, flag, mode)
	if err != nil {
		return nil, err
	}
	readAhead(f)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.byPath == nil {
		o.byPath = map[string][]*os.File{}
	}
	o.byPath[path] = append(o.byPath[path], f)
	return f, nil
}

// take closes all files of a path, also those in use, and forgets them.
func (o *openFiles) take(path string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var errs []error
	for _, f := range o.byPath[path] {
		errs = append(errs, release(f))
	}
	delete(o.byPath, path)
	return errors.Join(errs...)
}

// forget notes that etcd has closed the files of a path.
func (o *openFiles) forget(path string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.byPath, path)
}

// database is the open database of a server.
func database(s *etcdserver.EtcdServer) (*bbolt.DB, error) {
	v, err := private(reflect.ValueOf(s.Backend()).Elem(), "db")
	if err != nil {
		return nil, err
	}
	db, ok := v.Interface().(*bbolt.DB)
	if !ok {
		return nil, fmt.Errorf("etcd's database is a %v", v.Type())
	}
	return db, nil
}

// closeLog closes the log of a server that may hang.
func closeLog(s *etcdserver.EtcdServer) error {
	log, err := logOf(s)
	if err != nil {
		return err
	}
	closed := make(chan error, 1)
	go func() {
		_ = log.Close() // which ends at the first error, and leaves files open
		files, err := filesOf(log)
		for _, f := range files {
			if f != nil {
				err = errors.Join(err, release(f.File))
			}
		}
		closed <- err
	}()
	select {
	case err := <-closed:
		return err
	case <-time.After(closeTime):
		return errors.New("etcd's log does not close")
	}
}

// logOf is the log of a server.
func logOf(s *etcdserver.EtcdServer) (*wal.WAL, error) {
	storage, err := private(reflect.ValueOf(s).Elem(), "r", "raftNodeConfig", "storage")
	if err != nil {
		return nil, err
	}
	log, err := private(storage.Elem().Elem(), "w")
	if err != nil {
		return nil, err
	}
	found, ok := log.Interface().(*wal.WAL)
	if !ok {
		return nil, fmt.Errorf("etcd's log is a %v", log.Type())
	}
	return found, nil
}

// filesOf are the files of a log that nobody writes to any more.
func filesOf(log *wal.WAL) ([]*fileutil.LockedFile, error) {
	locks, err := private(reflect.ValueOf(log).Elem(), "locks")
	if err != nil {
		return nil, err
	}
	files, ok := locks.Interface().([]*fileutil.LockedFile)
	if !ok {
		return nil, fmt.Errorf("the files of etcd's log are %v", locks.Type())
	}
	return files, nil
}

// private follows fields of addressable structs that other packages must not see.
func private(v reflect.Value, names ...string) (reflect.Value, error) {
	for _, name := range names {
		if v = v.FieldByName(name); !v.IsValid() {
			return v, fmt.Errorf("this version of etcd has no field %q", name)
		}
	}
	return reflect.NewAt(v.Type(), unsafe.Pointer(v.UnsafeAddr())).Elem(), nil
}

// databaseFile is the file that etcd, too, locks while it runs.
func databaseFile(dir string) string { return filepath.Join(dir, "member", "snap", "db") }
