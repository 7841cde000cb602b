package credentialplugins

import (
	"path"
	"strings"
)

// address is the name of an image, or a pattern for such names.
type address struct {
	host []string // the parts of the name
	port string
	path string
}

func parse(text string) address {
	text = strings.TrimPrefix(strings.TrimPrefix(text, "https://"), "http://")
	host, rest, _ := strings.Cut(text, "/")
	host, port, _ := strings.Cut(host, ":")
	a := address{host: strings.Split(host, "."), port: port}
	if rest != "" {
		a.path = "/" + rest
	}
	return a
}

// matches reports whether a pattern is for an image. Stars stand for parts of the host's name, or for whole ones.
func matches(pattern, image string) bool {
	p, i := parse(pattern), parse(image)
	if len(p.host) != len(i.host) || p.port != i.port || !strings.HasPrefix(i.path, p.path) {
		return false
	}
	for n := range p.host {
		if ok, err := path.Match(p.host[n], i.host[n]); err != nil || !ok {
			return false
		}
	}
	return true
}

// valid reports whether a pattern has stars only where they mean something.
func valid(pattern string) bool {
	p := parse(pattern)
	for _, part := range p.host {
		if _, err := path.Match(part, ""); err != nil || part == "" {
			return false
		}
	}
	return !strings.Contains(p.port+p.path, "*")
}

// repository is the full name of an image, with its registry and without tag and digest.
func repository(image string) string {
	name, _, _ := strings.Cut(image, "@")
	if colon := strings.LastIndexByte(name, ':'); colon > strings.LastIndexByte(name, '/') {
		name = name[:colon]
	}
	host, _, deep := strings.Cut(name, "/")
	switch {
	case !deep:
		return "docker.io/library/" + name
	case !strings.ContainsAny(host, ".:") && host != "localhost":
		return "docker.io/" + name
	}
	return name
}

// registry is the registry of a full name.
func registry(repository string) string {
	host, _, _ := strings.Cut(repository, "/")
	return host
}
