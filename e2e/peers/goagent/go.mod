module signalbox/e2e/peers/goagent

go 1.26.7

require github.com/coder/acp-go-sdk v0.13.0
