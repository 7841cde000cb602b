package resource

const (
	JSONType     = "application/json"
	ProtobufType = "application/vnd.kubernetes.protobuf"
)
