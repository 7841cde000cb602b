package millrace

import (
	"net/http"

	"github.com/millrace/millrace/server/auth"
	"github.com/millrace/millrace/server/h2"
)

// knownClients tells the HTTP/2 connection of each request whether its client is authenticated. Unauthenticated clients may have
// only a few requests at the same time, and their connection is closed after each answer.
type knownClients struct{ auth.Authenticator }

// Authenticate implements auth.Authenticator.
func (k knownClients) Authenticate(r *http.Request) (auth.User, error) {
	user, err := k.Authenticator.Authenticate(r)
	if err != nil || user.Name == auth.Anonymous {
		h2.Unauthenticated(r.Context())
	} else {
		h2.Authenticated(r.Context())
	}
	return user, err
}
