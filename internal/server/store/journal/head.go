package journal

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace/millrace/internal/server/store"
)

const (
	magic     = "millrace log 3\n\x00" // of segments and of snapshots
	saltBytes = 8
	headBytes = len(magic) + saltBytes

	segmentSuffix   = ".log"
	snapshotSuffix  = ".snapshot"
	archiveSuffix   = ".archive"
	temporarySuffix = ".new"
)

// salt is where the sums of a file begin.
type salt uint32

func (s salt) sum(b []byte) uint32 { return crc32.Update(uint32(s), castagnoli, b) }

// newHead makes the head of a file: the magic line and random bytes, from which the salt is made.
func newHead() ([]byte, salt) {
	head := append([]byte(magic), make([]byte, saltBytes)...)
	_, _ = rand.Read(head[len(magic):]) // never fails
	return head, salt(crc32.Checksum(head, castagnoli))
}

var errForeign = errors.New("no file of this store, or of another version of it")

func readHead(b []byte) (salt, error) {
	if len(b) < headBytes || !bytes.HasPrefix(b, []byte(magic)) {
		return 0, errForeign
	}
	return salt(crc32.Checksum(b[:headBytes], castagnoli)), nil
}

func fileName(rev store.Revision, suffix string) string { return fmt.Sprintf("%020d%s", rev, suffix) }

// files returns the revisions of a directory's files with a suffix, in ascending order.
func files(dir directory, suffix string) ([]store.Revision, error) {
	names, err := dir.names()
	if err != nil {
		return nil, err
	}
	var revs []store.Revision
	for _, name := range names {
		if number, ok := strings.CutSuffix(name, suffix); ok {
			if n, err := strconv.ParseInt(number, 10, 64); err == nil {
				revs = append(revs, store.Revision(n))
			}
		}
	}
	slices.Sort(revs)
	return revs, nil
}
