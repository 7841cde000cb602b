package limit

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// part is the share of all objects that a selector selects: one in a hundred.
const part = 100

// list sends a list that is made at the first request.
func (s *server) list(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	n := s.o.Pods
	if q.Has("labelSelector") || q.Has("fieldSelector") {
		n /= part
	}
	token := ""
	if limit, err := strconv.Atoi(q.Get("limit")); err == nil && limit < n {
		from, _ := strconv.Atoi(q.Get("continue"))
		if from+limit < n {
			token = strconv.Itoa(from + limit)
		}
		n = min(limit, n-from)
	}
	proto := strings.Contains(r.Header.Get("Accept"), "protobuf")
	packed := !proto && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")
	contentType := "application/json"
	if proto {
		contentType = "application/vnd.kubernetes.protobuf"
	}
	if packed {
		w.Header().Set("Content-Encoding", "gzip")
	}
	send(w, s.ready(n, token, proto, packed), contentType)
}

func (s *server) ready(n int, token string, proto, packed bool) []byte {
	key := fmt.Sprint(n, token, proto, packed)
	s.mu.Lock()
	defer s.mu.Unlock()
	if b, ok := s.lists[key]; ok {
		return b
	}
	item := s.pod
	if proto {
		item = item[:len(item)*protoShare/100]
	}
	head := fmt.Appendf(nil, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1","continue":%q},"items":[`, token)
	var b bytes.Buffer
	if packed {
		// Each object is compressed separately, as if the objects were different.
		item, head = deflated(item), deflated(head)
		b.Write(gzipHead)
	}
	b.Write(head)
	for range n {
		b.Write(item)
	}
	s.lists[key] = b.Bytes()
	return b.Bytes()
}

// protoShare is the approximate size of a pod in protobuf, as a percentage of JSON.
const protoShare = 80
