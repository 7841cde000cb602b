package server

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// firstByte notes whether something was written, and flushes each write for a client that follows.
type firstByte struct {
	http.ResponseWriter
	begun, follow bool
}

func (f *firstByte) Write(p []byte) (int, error) {
	f.begin()
	n, err := f.ResponseWriter.Write(p)
	if f.follow {
		f.Flush()
	}
	return n, err
}

func (f *firstByte) begin() {
	if !f.begun {
		f.begun = true
		f.Header().Set("Content-Type", "text/plain")
		f.Header().Set("Transfer-Encoding", "chunked")
	}
}

// Flush flushes the answer, or its header.
func (f *firstByte) Flush() {
	f.begin()
	if flusher, ok := f.ResponseWriter.(http.Flusher); ok {
		flusher.Flush()
	}
}

func (s *Server) logs(w http.ResponseWriter, r *http.Request, pod *corev1.Pod, container string) {
	o, err := logOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	out := &firstByte{ResponseWriter: w, follow: o.Follow}
	err = s.Node.Logs(r.Context(), pod, container, o, out)
	switch {
	case err == nil:
		out.begin()
	case !out.begun:
		answer(w, err)
	default:
		s.Logger.Debug("log ended early", "pod", pod.Namespace+"/"+pod.Name, "container", container, "err", err)
	}
}

func logOptions(r *http.Request) (*corev1.PodLogOptions, error) {
	q := r.URL.Query()
	o := &corev1.PodLogOptions{
		Follow: truth(q.Get("follow")), Previous: truth(q.Get("previous")), Timestamps: truth(q.Get("timestamps")),
	}
	for _, field := range []struct {
		name string
		into **int64
	}{{"tailLines", &o.TailLines}, {"limitBytes", &o.LimitBytes}, {"sinceSeconds", &o.SinceSeconds}} {
		text := q.Get(field.name)
		if text == "" || field.name == "tailLines" && text == "all" {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%s: %q is no number", field.name, text)
		}
		*field.into = &n
	}
	if text := q.Get("sinceTime"); text != "" {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return nil, fmt.Errorf("sinceTime: %w", err)
		}
		o.SinceTime = &metav1.Time{Time: at}
	}
	if text := q.Get("stream"); text != "" && text != corev1.LogStreamAll {
		o.Stream = &text
	}
	return o, nil
}

func truth(text string) bool { return text == "true" || text == "1" }
