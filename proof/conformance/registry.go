//go:build unix

package main

import (
	"cmp"
	"encoding/json"
	"net/http"
	"os"
	"path"
	"strings"
)

// The media types of an image's parts, as the Open Container Initiative names them.
const (
	layerType    = "application/vnd.oci.image.layer.v1.tar"
	configType   = "application/vnd.oci.image.config.v1+json"
	manifestType = "application/vnd.oci.image.manifest.v1+json"
)

const (
	blobDirectory = "blobs"
	indexFile     = "images.json"
	anyImage      = "any" // the name in the index of the image of all names that it does not have
	registryVerb  = "registry"
)

// repositories says to the tests where all their images come from.
const repositories = "gcRegistry: " + registryAddress + "\npromoterE2eRegistry: " + registryAddress + "/e2e-test-images\nbuildImageRegistry: " + registryAddress +
	"/build-image\ngcEtcdRegistry: " + registryAddress + "\nsigStorageRegistry: " + registryAddress + "/sig-storage\nprivateRegistry: " + registryAddress + "/private\n"

func (k kit) blob(digest string) string {
	return k.path(blobDirectory, strings.Replace(digest, ":", "-", 1))
}

// serveRegistry serves the images of a kit to pull, on the loopback of the network namespace in which it runs. Tags say
// nothing: the tests name several versions of some images, and all are the same here.
func serveRegistry(dir string) error {
	k := kit{dir: dir}
	b, err := os.ReadFile(k.path(indexFile))
	if err != nil {
		return err
	}
	var index map[string]content
	if err := json.Unmarshal(b, &index); err != nil {
		return err
	}
	return http.ListenAndServe(registryAddress, k.registry(index)) // the nodes end it
}

func (k kit) registry(index map[string]content) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v2/{$}", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /v2/{rest...}", func(w http.ResponseWriter, r *http.Request) {
		before, last := path.Split(r.URL.Path)
		repository, kind := path.Split(strings.TrimSuffix(before, "/"))
		switch {
		case kind == "manifests":
			c, ok := index[path.Base(repository)]
			if !ok {
				c = index[anyImage]
			}
			if strings.HasPrefix(last, "sha256:") {
				c.Digest = last
			}
			k.serveBlob(w, r, cmp.Or(c.MediaType, manifestType), c.Digest)
		case kind == "blobs" && strings.HasPrefix(last, "sha256:"):
			k.serveBlob(w, r, "application/octet-stream", last)
		default:
			http.NotFound(w, r)
		}
	})
	return mux
}

func (k kit) serveBlob(w http.ResponseWriter, r *http.Request, mediaType, digest string) {
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("Docker-Content-Digest", digest)
	http.ServeFile(w, r, k.blob(digest))
}
