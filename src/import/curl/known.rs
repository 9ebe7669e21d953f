//! Every option of curl 8.22 (its folder `docs/cmdline-opts`) and of older ones, by what becomes of it.
//!
//! An option is a word here: its long name, `/` and its letter if it has one, and `=` if it takes a value. Where curl's
//! documents have `no-NAME`, NAME stands here: each option that takes no value can be turned off so.

/// What becomes of an option.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Fate {
    /// The scenario or the deployment has its equivalent.
    Carried,
    /// It changes nothing about the requests that a load sends.
    WithoutEffect,
    /// It has no equivalent, and a note names it.
    Named,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct CurlOption {
    pub(super) name: &'static str,
    pub(super) letter: Option<char>,
    pub(super) takes_value: bool,
    pub(super) fate: Fate,
}

const CARRIED: &str = "anyauth aws-sigv4= basic cacert= cert/E= compressed cookie/b= data-ascii= data-binary= data-raw= \
    data-urlencode= data/d= digest form-string= form/F= get/G globoff/g head/I header/H= http1.1 http2-prior-knowledge \
    http2 insecure/k json= key= location-trusted location/L max-redirs= max-time/m= negotiate next/: noproxy= ntlm-wb \
    ntlm oauth2-bearer= path-as-is proto-default= proxy-user/U= proxy/x= range/r= referer/e= request/X= resolve= unix-socket= \
    upload-file/T= url-query= url= user-agent/A= user/u=";

const WITHOUT_EFFECT: &str = "buffer/N clobber create-dirs create-file-mode= cookie-jar/c= disable/q \
    disallow-username-in-url dump-ca-embed dump-header/D= fail-early fail-with-body fail/f include/i keepalive \
    keepalive-cnt= keepalive-time= libcurl= no-alpn no-npn output-dir= output/o= out-null progress-bar/# progress-meter \
    remote-header-name/J remote-name-all remote-name/O remote-time/R remove-on-error show-error/S show-headers silent/s \
    stderr= styled-output suppress-connect-headers tcp-nodelay trace-ascii= trace-config= trace-ids trace-time trace= \
    use-ascii/B verbose/v write-out/w= xattr";

const NAMED: &str = "abstract-unix-socket= alpn alt-svc= append/a ca-native capath= cert-status cert-type= ciphers= \
    compressed-ssh config/K= connect-timeout= connect-to= continue-at/C= crlf crlfile= curves= delegation= \
    disable-eprt disable-epsv dns-interface= dns-ipv4-addr= dns-ipv6-addr= dns-servers= doh-cert-status doh-insecure \
    doh-url= ech= egd-file= engine= eprt epsv etag-compare= etag-save= expect100-timeout= false-start follow \
    form-escape ftp-account= ftp-alternative-to-user= ftp-create-dirs ftp-method= ftp-pasv ftp-port/P= ftp-pret \
    ftp-skip-pasv-ip ftp-ssl-ccc-mode= ftp-ssl-ccc ftp-ssl-control happy-eyeballs-timeout-ms= haproxy-clientip= \
    haproxy-protocol help/h= hostpubmd5= hostpubsha256= hsts= http0.9 http1.0/0 http3-only http3 httpsig-algo= \
    httpsig-headers= httpsig-key= httpsig-keyid= ignore-content-length interface= ip-tos= ipfs-gateway= ipv4/4 ipv6/6 \
    junk-session-cookies/j key-type= knownhosts= krb= limit-rate= list-only/l local-port= login-options= mail-auth= \
    mail-from= mail-rcpt-allowfails mail-rcpt= manual/M max-filesize= metalink mptcp netrc-file= netrc-optional \
    netrc/n npn parallel-immediate parallel-max-host= parallel-max= parallel/Z pass= pinnedpubkey= post301 post302 \
    post303 postquote= preproxy= prequote= proto-redir= proto= proxy-anyauth proxy-basic \
    proxy-ca-native proxy-cacert= proxy-capath= proxy-cert-type= proxy-cert= proxy-ciphers= proxy-crlfile= \
    proxy-digest proxy-header= proxy-http2 proxy-http3 proxy-insecure proxy-key-type= proxy-key= proxy-negotiate \
    proxy-ntlm proxy-pass= proxy-pinnedpubkey= proxy-service-name= proxy-ssl-allow-beast \
    proxy-ssl-auto-client-cert proxy-tls13-ciphers= proxy-tlsauthtype= proxy-tlspassword= proxy-tlsuser= proxy-tlsv1 \
    proxy1.0= proxytunnel/p pubkey= quote/Q= random-file= rate= raw request-target= retry-all-errors \
    retry-connrefused retry-delay= retry-max-time= retry= sasl-authzid= sasl-ir service-name= sessionid sigalgs= \
    skip-existing socks4= socks4a= socks5-basic socks5-gssapi-nec socks5-gssapi-service= socks5-gssapi \
    socks5-hostname= socks5= speed-limit/Y= speed-time/y= ssl-allow-beast ssl-auto-client-cert ssl-no-revoke ssl-reqd \
    ssl-revoke-best-effort ssl-sessions= ssl sslv2/2 sslv3/3 tcp-fastopen telnet-option/t= tftp-blksize= \
    tftp-no-options time-cond/z= tls-earlydata tls-max= tls13-ciphers= tlsauthtype= tlspassword= tlsuser= tlsv1.0 \
    tlsv1.1 tlsv1.2 tlsv1.3 tlsv1/1 tr-encoding upload-flags= variable= version/V vlan-priority=";

pub(super) fn all() -> impl Iterator<Item = CurlOption> {
    let lists = [(CARRIED, Fate::Carried), (WITHOUT_EFFECT, Fate::WithoutEffect), (NAMED, Fate::Named)];
    lists.into_iter().flat_map(|(list, fate)| {
        list.split_whitespace().map(move |word| {
            let (rest, takes_value) = word.strip_suffix('=').map_or((word, false), |rest| (rest, true));
            let (name, letter) =
                rest.split_once('/').map_or((rest, None), |(name, letter)| (name, letter.chars().next()));
            CurlOption { name, letter, takes_value, fate }
        })
    })
}

/// The option with this long name, or with the only one that begins so (older versions of curl take it).
pub(super) fn named(name: &str) -> Option<CurlOption> {
    let exact = all().find(|known| known.name == name);
    exact.or_else(|| {
        let mut alike = all().filter(|known| name.len() > 1 && known.name.starts_with(name));
        alike.next().filter(|_| alike.next().is_none())
    })
}

/// The option with this letter.
pub(super) fn lettered(letter: char) -> Option<CurlOption> {
    all().find(|known| known.letter == Some(letter))
}
