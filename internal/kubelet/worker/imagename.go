package worker

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// The parts of an image name: registry host, path, tag and digest.
var (
	imageHost   = regexp.MustCompile(`^(?:(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])(?:\.(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9]))*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?$`)
	imagePath   = regexp.MustCompile(`^[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*$`)
	imageTag    = regexp.MustCompile(`^\w[\w.-]{0,127}$`)
	imageDigest = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}$`)
	imageHash   = regexp.MustCompile(`^[a-f0-9]{64}$`)
)

var errReference = errors.New("invalid reference format")

// longestImageName is the limit for an image name without tag and digest.
const longestImageName = 255

// checkImageName returns an error for a name that no runtime could pull.
func checkImageName(name string) error {
	if imageHash.MatchString(name) {
		return fmt.Errorf("couldn't parse image name %q: invalid repository name (%s), cannot specify 64-byte hexadecimal strings", name, name)
	}
	host, rest, ok := strings.Cut(name, "/")
	if !ok || !strings.ContainsAny(host, ".:") && host != "localhost" && strings.ToLower(host) == host {
		host, rest = "docker.io", name
		if !ok {
			rest = "library/" + name
		}
	}
	if err := checkReference(host, rest); err != nil {
		return fmt.Errorf("couldn't parse image name %q: %w", name, err)
	}
	return nil
}

func checkReference(host, rest string) error {
	repository, _, _ := strings.Cut(rest, "@")
	repository, _, _ = strings.Cut(repository, ":")
	if strings.ToLower(repository) != repository {
		return fmt.Errorf("%w: repository name (%s) must be lowercase", errReference, repository)
	}
	named, digest, hasDigest := strings.Cut(rest, "@")
	path, tag, hasTag := strings.Cut(named, ":")
	if !imageHost.MatchString(host) || !imagePath.MatchString(path) || hasTag && !imageTag.MatchString(tag) || hasDigest && !imageDigest.MatchString(digest) {
		return errReference
	}
	if len(path) > longestImageName {
		return fmt.Errorf("repository name must not be more than %d characters", longestImageName)
	}
	return nil
}
