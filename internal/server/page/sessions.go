package page

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/server/auth"
)

// How long a link can be used, and a session.
const (
	LinkLife    = 10 * time.Minute
	SessionLife = 12 * time.Hour
)

// There are at most so many links, and so many sessions, and of one user. What a user has too many of makes the oldest
// of the same user go: nobody can end what others have.
const (
	mostOfAll  = 1024
	mostOfUser = 16
)

var errFull = errors.New("too many others have links or sessions")

// secret is a secret as it is kept. Finding one by its hash takes no time that depends on how much of it is right.
type secret [sha256.Size]byte

// newSecret makes a secret of 26 letters and digits, 130 bits.
func newSecret() (text string, kept secret) {
	text = rand.Text()
	return text, sha256.Sum256([]byte(text))
}

// session is what a link or a session says.
type session struct {
	user auth.User
	ends time.Time
	key  secret // of a session: the second secret
}

// sessions are links, or sessions.
type sessions struct {
	mu  sync.Mutex // guards all
	all map[secret]session
}

// add adds one, and makes room for it.
func (s *sessions) add(by secret, one session, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var oldest secret
	own := 0
	for k, other := range s.all {
		switch {
		case !now.Before(other.ends):
			delete(s.all, k)
		case other.user.Name == one.user.Name:
			if own++; own == 1 || other.ends.Before(s.all[oldest].ends) {
				oldest = k
			}
		}
	}
	if own >= mostOfUser {
		delete(s.all, oldest)
	}
	if len(s.all) >= mostOfAll {
		return errFull
	}
	if s.all == nil {
		s.all = map[secret]session{}
	}
	s.all[by] = one
	return nil
}

// find finds one that has not ended.
func (s *sessions) find(text string, now time.Time) (session, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one, ok := s.all[sha256.Sum256([]byte(text))]
	return one, ok && now.Before(one.ends)
}

// take finds one, and removes it.
func (s *sessions) take(text string, now time.Time) (session, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	by := secret(sha256.Sum256([]byte(text)))
	one, ok := s.all[by]
	delete(s.all, by)
	return one, ok && now.Before(one.ends)
}

// opens reports whether a text is the second secret of a session.
func (s *session) opens(text string) bool {
	given := sha256.Sum256([]byte(text))
	return subtle.ConstantTimeCompare(given[:], s.key[:]) == 1
}
