// Package datadir knows what the data directory of a cluster on one machine has: the log of its objects, or, in one of an
// earlier version, the database of an embedded etcd, which TakeOver moves into a log.
//
// What moves keeps its keys, its bytes and its revisions, so that no client notices. How much time an entry has left that
// expires, no store tells: it lives its whole time once more.
package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource/builtin"
	"github.com/millrace/millrace/internal/server/store/journal"
)

// Log is the directory of the log in a data directory.
func Log(data string) string { return filepath.Join(data, "journal") }

// Vacant returns an error if a data directory has objects.
func Vacant(data string) error {
	there, err := journal.Exists(Log(data))
	if err == nil && there {
		err = fmt.Errorf("there is a log in %s already", Log(data))
	}
	if err != nil {
		return err
	}
	if _, err := os.Stat(Database(data)); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, fmt.Errorf("there is the database of an earlier version in %s: move it away", Database(data)))
	}
	return nil
}

// Open opens the log of a cluster that is not running.
func Open(data string) (*journal.Store, error) {
	there, err := journal.Exists(Log(data))
	if err != nil {
		return nil, err
	}
	if !there {
		return nil, fmt.Errorf("there is no log in %s: name the data directory of a cluster", Log(data))
	}
	return journal.Open(journal.Options{Dir: Log(data), History: journal.Everything})
}

// serverLeases are the keys of kube-apiserver's and our servers' leases, which live for seconds.
const serverLeases = registry.Root + "masterleases/"

// Life returns a function that tells how long entries of a key live, for ever if zero. Events live as long as given: as
// long as their kind says if that is zero, for ever if it is negative.
func Life(events time.Duration) func(key string) time.Duration {
	lives := map[string]time.Duration{serverLeases: time.Minute}
	for _, k := range builtin.Kinds() {
		life := k.TTL
		if life > 0 && events != 0 { // no other kind expires
			life = events
		}
		if life > 0 {
			lives[registry.Root+k.Prefix+"/"] = life
		}
	}
	return func(key string) time.Duration {
		for prefix, life := range lives {
			if strings.HasPrefix(key, prefix) {
				return life
			}
		}
		return 0
	}
}
