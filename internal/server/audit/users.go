package audit

import (
	"reflect"
	"slices"
	"sync/atomic"

	"github.com/millrace/millrace/internal/server/auth"
)

// users remembers how users are encoded. Authenticators give the requests of a credential the same extra fields, by
// which a user is known here.
type users struct {
	all [64]atomic.Pointer[encodedUser]
}

// encodedUser is a user with their text. It keeps the extra fields alive, so that nothing else can come to lie in their
// place.
type encodedUser struct {
	user auth.User
	text []byte
}

// append adds a user.
func (us *users) append(b []byte, u *auth.User) []byte {
	if len(u.Extra) == 0 {
		return user(b, u)
	}
	place := reflect.ValueOf(u.Extra).Pointer()
	slot := &us.all[place/64%uintptr(len(us.all))]
	known := slot.Load()
	if known == nil || !known.is(u, place) {
		known = &encodedUser{*u, user(nil, u)}
		slot.Store(known)
	}
	return append(b, known.text...)
}

func (e *encodedUser) is(u *auth.User, extra uintptr) bool {
	return reflect.ValueOf(e.user.Extra).Pointer() == extra && e.user.Name == u.Name && e.user.UID == u.UID && slices.Equal(e.user.Groups, u.Groups)
}
