package daemon

// ClaimHeader is the header that a client must not get through.
const ClaimHeader = claimHeader
