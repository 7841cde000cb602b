package informer

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"reflect"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/watch"
)

// wireSource lists and watches over the connection of a typed client, and keeps the bytes of the objects instead of
// decoding them. Where a server answers with something else than protobuf it goes through the typed client.
type wireSource[T Object] struct {
	client    rest.Interface
	namespace string
	resource  string
	typed     Source[T]
	reader    encodedReader
}

var errNotProtobuf = errors.New("the server does not answer in protobuf")

// encodable is a source that can deliver objects as they were sent.
type encodable interface {
	encoded(dropManagedFields bool) (Source[*encoded], bool)
}

// encoded implements encodable for clients that client-go has generated.
func (s *typedSource[T, L]) encoded(dropManagedFields bool) (Source[*encoded], bool) {
	client, ok := s.client.(interface {
		GetClient() rest.Interface
		GetNamespace() string
	})
	if !ok || !speaksProtobuf[T]() {
		return nil, false
	}
	resource := resourceOf(s.client)
	if resource == "" {
		return nil, false
	}
	return &wireSource[T]{
		client: client.GetClient(), namespace: client.GetNamespace(), resource: resource, typed: s,
		reader: encodedReader{dropManagedFields: dropManagedFields},
	}, true
}

// resourceOf returns the name under which a generated client asks for its kind. The client has no method for it; where
// the field cannot be found the client is used in the ordinary way.
func resourceOf(client any) string {
	v := reflect.Indirect(reflect.ValueOf(client))
	if v.Kind() != reflect.Struct {
		return ""
	}
	field := v.FieldByName("resource")
	if !field.IsValid() || field.Kind() != reflect.String {
		return ""
	}
	return field.String()
}

func (s *wireSource[T]) request(options metav1.ListOptions) *rest.Request {
	return s.client.Get().UseProtobufAsDefault().
		NamespaceIfScoped(s.namespace, s.namespace != "").Resource(s.resource).
		VersionedParams(&options, scheme.ParameterCodec).Timeout(timeoutOf(options))
}

// List implements Source.
func (s *wireSource[T]) List(ctx context.Context, options metav1.ListOptions) ([]*encoded, metav1.ListMeta, error) {
	body, err := s.request(options).Stream(ctx)
	if err != nil {
		return nil, metav1.ListMeta{}, err
	}
	defer body.Close()
	input := bufio.NewReaderSize(body, 64<<10)
	start, err := input.Peek(len(magic))
	if err != nil {
		return nil, metav1.ListMeta{}, fmt.Errorf("read list: %w", err)
	}
	if string(start) != magic {
		return s.listTyped(ctx, options)
	}
	page := listReader{input: input, reader: &s.reader}
	if err := page.read(); err != nil {
		return nil, metav1.ListMeta{}, fmt.Errorf("read list: %w", err)
	}
	return page.items, page.list, nil
}

func (s *wireSource[T]) listTyped(ctx context.Context, options metav1.ListOptions) ([]*encoded, metav1.ListMeta, error) {
	objects, list, err := s.typed.List(ctx, options)
	if err != nil {
		return nil, list, err
	}
	items := make([]*encoded, len(objects))
	for i, object := range objects {
		if items[i], err = s.reader.encode(object); err != nil {
			return nil, list, err
		}
	}
	return items, list, nil
}

// Watch implements Source.
func (s *wireSource[T]) Watch(ctx context.Context, options metav1.ListOptions) (watch.Stream[*encoded], error) {
	options.Watch = true
	life, cancel := context.WithCancel(ctx)
	body, err := s.request(options).Stream(life)
	if err != nil {
		cancel()
		return nil, err
	}
	return &wireStream[T]{
		current: watch.Decode(&frameDecoder{body: body, cancel: cancel, reader: &s.reader}),
		again:   func() (watch.Stream[T], error) { return s.typed.Watch(ctx, options) },
		reader:  &s.reader,
	}, nil
}

// wireStream is a watch in protobuf, unless the first thing that comes is something else: then it starts anew with the
// typed client. (What was asked for in the options decides where a watch starts, so nothing is lost.)
type wireStream[T Object] struct {
	again  func() (watch.Stream[T], error)
	reader *encodedReader

	mu      sync.Mutex
	current watch.Stream[*encoded] // guarded by mu
	stopped bool                   // guarded by mu
}

// Next implements watch.Stream.
func (s *wireStream[T]) Next(ctx context.Context) (watch.Event[*encoded], error) {
	s.mu.Lock()
	current := s.current
	s.mu.Unlock()
	event, err := current.Next(ctx)
	if !errors.Is(err, errNotProtobuf) {
		return event, err
	}
	typed, err := s.again()
	if err != nil {
		return event, err
	}
	s.mu.Lock()
	s.current = &encodingStream[T]{Stream: typed, reader: s.reader}
	current = s.current
	if s.stopped {
		current.Stop()
	}
	s.mu.Unlock()
	return current.Next(ctx)
}

// Ready reports whether Next would not have to wait.
func (s *wireStream[T]) Ready() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	full, ok := s.current.(interface{ Ready() bool })
	return ok && full.Ready()
}

// Stop implements watch.Stream.
func (s *wireStream[T]) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	s.current.Stop()
}

// encodingStream encodes what a typed stream delivers.
type encodingStream[T Object] struct {
	watch.Stream[T]
	reader *encodedReader
}

func (s *encodingStream[T]) Next(ctx context.Context) (watch.Event[*encoded], error) {
	event, err := s.Stream.Next(ctx)
	out := watch.Event[*encoded]{Type: event.Type, Err: event.Err}
	if err != nil || event.Type == watch.Error {
		return out, err
	}
	out.Object, err = s.reader.encode(event.Object)
	return out, err
}

// frameDecoder reads watch events in protobuf: each is preceded by its length.
type frameDecoder struct {
	body   io.ReadCloser
	cancel context.CancelFunc
	reader *encodedReader
	input  *bufio.Reader
	frame  []byte
}

// maxFrame bounds what a broken connection can make us allocate. Objects are at most a few megabytes.
const maxFrame = 64 << 20

// Decode implements watch.Decoder.
func (d *frameDecoder) Decode() (watch.Event[*encoded], error) {
	if d.input == nil {
		d.input = bufio.NewReaderSize(d.body, 16<<10)
		if start, err := d.input.Peek(1); err == nil && start[0] == '{' {
			return watch.Event[*encoded]{}, errNotProtobuf
		}
	}
	var length [4]byte
	if _, err := io.ReadFull(d.input, length[:]); err != nil {
		return watch.Event[*encoded]{}, err
	}
	size := int(binary.BigEndian.Uint32(length[:]))
	if size > maxFrame {
		return watch.Event[*encoded]{}, fmt.Errorf("%w: a frame of %d bytes", errWire, size)
	}
	if cap(d.frame) < size || cap(d.frame) > 1<<20 && size < 1<<16 {
		d.frame = make([]byte, size, max(size, 16<<10))
	}
	d.frame = d.frame[:size]
	if _, err := io.ReadFull(d.input, d.frame); err != nil {
		return watch.Event[*encoded]{}, noEOF(err)
	}
	return d.open()
}

// Ready reports whether a whole event has been received.
func (d *frameDecoder) Ready() bool {
	if d.input == nil || d.input.Buffered() < 4 {
		return false
	}
	length, err := d.input.Peek(4)
	return err == nil && d.input.Buffered()-4 >= int(binary.BigEndian.Uint32(length))
}

// Close implements watch.Decoder.
func (d *frameDecoder) Close() error {
	d.cancel()
	return d.body.Close()
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
