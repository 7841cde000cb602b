package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func portOf(n int) intstr.IntOrString { return intstr.FromInt32(int32(n)) }

// server serves pods. Its state is a list of writes: write n changed pod touched[n].
type server struct {
	pods  []encodedPod
	pages bool

	mu      sync.Mutex
	wake    *sync.Cond
	touched []int // guarded by mu
}

func serveForever(pods int, pages bool) error {
	s := &server{pods: make([]encodedPod, pods), pages: pages}
	s.wake = sync.NewCond(&s.mu)
	for i := range s.pods {
		s.pods[i] = encodePod(i)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("http://" + listener.Addr().String())
	mux := http.NewServeMux()
	mux.HandleFunc("/api/v1/pods", s.collection)
	mux.HandleFunc("/touch", s.touch)
	return http.Serve(listener, mux)
}

// touch writes count pods, starting with number from.
func (s *server) touch(w http.ResponseWriter, r *http.Request) {
	from, _ := strconv.Atoi(r.FormValue("from"))
	count, _ := strconv.Atoi(r.FormValue("count"))
	s.mu.Lock()
	for i := range count {
		s.touched = append(s.touched, (from+i)%len(s.pods))
	}
	fmt.Fprint(w, firstRevision+len(s.touched))
	s.mu.Unlock()
	s.wake.Broadcast()
}

func (s *server) collection(w http.ResponseWriter, r *http.Request) {
	proto := strings.HasPrefix(r.Header.Get("Accept"), "application/vnd.kubernetes.protobuf")
	switch {
	case r.FormValue("watch") == "" || r.FormValue("watch") == "false":
		s.list(w, r, proto)
	case r.FormValue("sendInitialEvents") == "true" && s.pages:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnprocessableEntity)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)
	default:
		s.watch(w, r, proto)
	}
}

// revisions returns each pod's newest revision and that of the collection.
func (s *server) revisions() ([]int64, int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	revisions := make([]int64, len(s.pods))
	for i := range revisions {
		revisions[i] = firstRevision
	}
	for n, i := range s.touched {
		revisions[i] = firstRevision + int64(n) + 1
	}
	return revisions, firstRevision + int64(len(s.touched))
}

func (s *server) list(w http.ResponseWriter, r *http.Request, proto bool) {
	from, _ := strconv.Atoi(r.FormValue("continue"))
	limit, _ := strconv.Atoi(r.FormValue("limit"))
	revisions, newest := s.revisions()
	to := len(s.pods)
	if limit > 0 && r.FormValue("resourceVersion") != "0" {
		to = min(to, from+limit)
	}
	list := metav1.ListMeta{ResourceVersion: fmt.Sprint(newest)}
	if to < len(s.pods) {
		list.Continue = strconv.Itoa(to)
	}
	if proto {
		w.Header().Set("Content-Type", "application/vnd.kubernetes.protobuf")
		s.listProto(w, list, revisions, from, to)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	head, _ := json.Marshal(list)
	fmt.Fprintf(w, `{"kind":"PodList","apiVersion":"v1","metadata":%s,"items":[`, head)
	for i := from; i < to; i++ {
		if i > from {
			io.WriteString(w, ",")
		}
		w.Write(at(s.pods[i].json, s.pods[i].jsonRev, revisions[i]))
	}
	io.WriteString(w, "]}")
}

func (s *server) listProto(w io.Writer, list metav1.ListMeta, revisions []int64, from, to int) {
	head, _ := (&corev1.PodList{ListMeta: list}).Marshal()
	size := len(head)
	for i := from; i < to; i++ {
		n := len(s.pods[i].proto)
		size += 1 + len(binary.AppendUvarint(nil, uint64(n))) + n
	}
	typeMeta, _ := (&runtime.TypeMeta{APIVersion: "v1", Kind: "PodList"}).Marshal()
	out := append([]byte("k8s\x00"), 1<<3|2, byte(len(typeMeta)))
	out = append(out, typeMeta...)
	out = binary.AppendUvarint(append(out, 2<<3|2), uint64(size))
	w.Write(append(out, head...))
	for i := from; i < to; i++ {
		w.Write(binary.AppendUvarint([]byte{2<<3 | 2}, uint64(len(s.pods[i].proto))))
		w.Write(at(s.pods[i].proto, s.pods[i].protoRev, revisions[i]))
	}
}

func (s *server) watch(w http.ResponseWriter, r *http.Request, proto bool) {
	events := eventWriter{out: w, proto: proto}
	w.Header().Set("Content-Type", "application/json")
	if proto {
		w.Header().Set("Content-Type", "application/vnd.kubernetes.protobuf;stream=watch")
	}
	position, _ := strconv.ParseInt(r.FormValue("resourceVersion"), 10, 64)
	if r.FormValue("sendInitialEvents") == "true" {
		revisions, newest := s.revisions()
		for i := range s.pods {
			events.send("ADDED", &s.pods[i], revisions[i])
		}
		events.bookmark(newest)
		position = newest
	}
	_ = http.NewResponseController(w).Flush()
	gone := r.Context()
	go func() { <-gone.Done(); s.wake.Broadcast() }()
	for next := int(position - firstRevision); gone.Err() == nil; {
		s.mu.Lock()
		for next >= len(s.touched) && gone.Err() == nil {
			s.wake.Wait()
		}
		due := s.touched[min(next, len(s.touched)):]
		s.mu.Unlock()
		for _, i := range due {
			next++
			events.send("MODIFIED", &s.pods[i], firstRevision+int64(next))
		}
		_ = http.NewResponseController(w).Flush()
	}
}

// eventWriter writes watch events in either format.
type eventWriter struct {
	out   io.Writer
	proto bool
}

func (e *eventWriter) send(kind string, pod *encodedPod, revision int64) {
	if e.proto {
		e.frame(kind, at(pod.proto, pod.protoRev, revision))
		return
	}
	fmt.Fprintf(e.out, `{"type":%q,"object":`, kind)
	e.out.Write(at(pod.json, pod.jsonRev, revision))
	io.WriteString(e.out, "}\n")
}

func (e *eventWriter) bookmark(revision int64) {
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{
		ResourceVersion: fmt.Sprint(revision), Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}
	if e.proto {
		content, _ := pod.Marshal()
		e.frame("BOOKMARK", content)
		return
	}
	content, _ := json.Marshal(pod)
	fmt.Fprintf(e.out, `{"type":"BOOKMARK","object":%s}`+"\n", content)
}

func (e *eventWriter) frame(kind string, pod []byte) {
	event := metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: envelope("Pod", pod)}}
	content, _ := event.Marshal()
	e.out.Write(binary.BigEndian.AppendUint32(nil, uint32(len(content))))
	e.out.Write(content)
}
