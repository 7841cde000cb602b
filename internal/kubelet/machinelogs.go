package kubelet

import (
	"net/http"
	"os"
)

// machineLogs serves the files in the directory of the machine's logs. Links do not lead out of it: pods may be allowed
// to write there.
func machineLogs(directory string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		root, err := os.OpenRoot(directory)
		if err != nil {
			http.NotFound(w, r)
			return
		}
		defer root.Close()
		http.StripPrefix("/logs/", http.FileServerFS(root.FS())).ServeHTTP(w, r)
	}
}
