package page

import (
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/server/auth"
)

// Paths below which, and at which, the page answers.
const (
	Prefix      = "/page/"
	LinkPath    = Prefix + "link"
	loginPath   = Prefix + "login"
	logoutPath  = Prefix + "logout"
	clusterPath = Prefix + "cluster"
)

// Key is the header of the second secret of a session.
const Key = "Millrace-Page"

// longestLogin bounds the body of a login.
const longestLogin = 1 << 10

// Options are the parts of a page.
type Options struct {
	// API answers the page's requests as the user in their context.
	API http.Handler
	// Now is the time, time.Now by default.
	Now func() time.Time
}

// Page answers requests from browsers. It runs nothing.
type Page struct {
	o               Options
	files           map[string]file
	links, sessions sessions
}

// New makes a page.
func New(o Options) *Page {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Page{o: o, files: read()}
}

// Link makes the code of a link, with which somebody becomes a user once.
func (p *Page) Link(u auth.User) (code string, ends time.Time, err error) {
	code, kept := newSecret()
	now := p.o.Now()
	ends = now.Add(LinkLife)
	return code, ends, p.links.add(kept, session{user: u, ends: ends}, now)
}

// Asks reports whether a path is the page's.
func Asks(path string) bool { return path == Prefix[:len(Prefix)-1] || strings.HasPrefix(path, Prefix) }

// ServeHTTP answers a request for which Asks is true, but LinkPath, which needs another proof of who asks.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	protect(w.Header())
	switch path := r.URL.Path; {
	case !sameOrigin(r):
		refuse(w, http.StatusForbidden, "this page answers no other page")
	case path == loginPath:
		p.login(w, r)
	case path == logoutPath:
		p.logout(w, r)
	case strings.HasPrefix(path, clusterPath+"/"):
		p.read(w, r)
	case path+"/" == Prefix:
		http.Redirect(w, r, Prefix, http.StatusMovedPermanently)
	default:
		p.send(w, r)
	}
}

// protect sets the headers that keep other pages and their scripts out.
func protect(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "+
		"worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types millrace")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// sameOrigin reports whether a request can come from this page: browsers say where from. Opening the page itself is
// possible from anywhere, as from a terminal.
func sameOrigin(r *http.Request) bool {
	if origin := r.Header.Get("Origin"); origin != "" && origin != scheme(r)+"://"+r.Host {
		return false
	}
	switch from := r.Header.Get("Sec-Fetch-Site"); from {
	case "", "same-origin":
		return true
	default:
		return r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document" && r.Method == http.MethodGet
	}
}

func scheme(r *http.Request) string {
	if r.TLS != nil {
		return "https"
	}
	return "http"
}

// cookieOf is the name of the cookie: a host's ports share cookies, and each port may be another cluster's.
func cookieOf(r *http.Request) string {
	_, port, err := net.SplitHostPort(r.Host)
	if err != nil {
		return "millrace-page"
	}
	return "millrace-page-" + port
}

// opened is the answer to a login. The other secret is in the cookie.
type opened struct {
	Key  string    `json:"key"`
	User string    `json:"user"`
	Ends time.Time `json:"ends"`
}

// login exchanges a code for a session.
func (p *Page) login(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		refuse(w, http.StatusMethodNotAllowed, "a login is a POST")
		return
	}
	var given struct{ Code string }
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, longestLogin)).Decode(&given); err != nil {
		refuse(w, http.StatusBadRequest, "the login cannot be read")
		return
	}
	now := p.o.Now()
	link, ok := p.links.take(given.Code, now)
	if !ok {
		refuse(w, http.StatusUnauthorized, "the link is unknown, too old, or was used before")
		return
	}
	cookie, kept := newSecret()
	key, keptKey := newSecret()
	s := session{user: link.user, ends: now.Add(SessionLife), key: keptKey}
	if err := p.sessions.add(kept, s, now); err != nil {
		refuse(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	setCookie(w, r, cookie, SessionLife)
	sendJSON(w, http.StatusOK, opened{Key: key, User: s.user.Name, Ends: s.ends})
}

// setCookie sets the cookie of a session. A life below zero removes it.
func setCookie(w http.ResponseWriter, r *http.Request, value string, life time.Duration) {
	http.SetCookie(w, &http.Cookie{
		Name: cookieOf(r), Value: value, Path: Prefix, MaxAge: int(life / time.Second), HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode,
	})
}

// logout ends the session.
func (p *Page) logout(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		refuse(w, http.StatusMethodNotAllowed, "a logout is a POST")
		return
	}
	if _, ok := p.session(r); !ok {
		refuse(w, http.StatusUnauthorized, noSession)
		return
	}
	cookie, _ := r.Cookie(cookieOf(r)) // it is there
	p.sessions.take(cookie.Value, p.o.Now())
	setCookie(w, r, "", -time.Second)
	w.WriteHeader(http.StatusNoContent)
}

const noSession = "there is no session, or it has ended"

// session finds the session of a request.
func (p *Page) session(r *http.Request) (session, bool) {
	cookie, err := r.Cookie(cookieOf(r))
	if err != nil {
		return session{}, false
	}
	s, ok := p.sessions.find(cookie.Value, p.o.Now())
	return s, ok && s.opens(r.Header.Get(Key))
}

// refuse sends a Status, as the API does.
func refuse(w http.ResponseWriter, code int, message string) {
	sendJSON(w, code, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: int32(code), Message: message,
	})
}

func sendJSON(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v) // the client has gone
}

// Linked answers the request for a link by the user in its context. The base is the URL of the page for everybody, or
// empty if it is where the client asks.
func (p *Page) Linked(base string) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		if r.Method != http.MethodPost {
			return apierrors.NewMethodNotSupported(schema.GroupResource{Resource: "links to the page"}, strings.ToLower(r.Method))
		}
		u := auth.UserFrom(r.Context())
		code, ends, err := p.Link(u)
		if err != nil {
			return apierrors.NewTooManyRequests(err.Error(), 60)
		}
		sendJSON(w, http.StatusCreated, Made{Page: base, Code: code, User: u.Name, Ends: ends})
		return nil
	}
}

// Made is the answer to a request for a link.
type Made struct {
	// Page is the URL of the page; empty if it is at the server that was asked.
	Page string    `json:"page,omitempty"`
	Code string    `json:"code"`
	User string    `json:"user"`
	Ends time.Time `json:"ends"`
}

// URL returns the link for a server at a URL.
func (m *Made) URL(server string) string {
	if m.Page != "" {
		server = m.Page
	}
	return Link(server, m.Code)
}

// Link returns the link to the page of a server with a code.
func Link(server, code string) string { return strings.TrimSuffix(server, "/") + Prefix + "#" + code }
