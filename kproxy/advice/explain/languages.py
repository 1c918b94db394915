"""Failures of a connection in the words of operating systems in other languages, put into English (pure).

A client prints its own words in English, and passes on those of the operating system: `Connect to ipv4#… failed: 连接超时`.
The tables are in English, so a line with other letters than ASCII is put into English before it is searched.

Sources: the translations of glibc (package libc-l10n), and what Windows' FormatMessage prints for WSAECONNREFUSED (10061),
WSAETIMEDOUT (10060), WSAECONNRESET (10054), WSAEHOSTUNREACH (10065) and WSAHOST_NOT_FOUND (11001) in public threads.
"""

from __future__ import annotations

_TABLE = """
Connection refused: 拒绝连接 | 连接被拒绝 | 由于目标计算机积极拒绝，无法连接 | 連線被拒絕 | 無法連線，因為目標電腦拒絕連線 | 接続を拒否されました
Connection refused: 対象のコンピューターによって拒否されたため、接続できませんでした | 연결이 거부됨 | 대상 컴퓨터에서 연결을 거부했으므로 | В соединении отказано
Connection refused: отверг запрос на подключение | Connexion refusée | l’a expressément refusée | l'a expressément refusée | Conexión rehusada
Connection refused: el equipo de destino denegó expresamente dicha conexión | Conexão recusada | Ligação recusada
Connection refused: a máquina de destino as recusou ativamente | Połączenie odrzucone | ponieważ komputer docelowy aktywnie go odmawia | Bağlantı reddedildi
Connection refused: Spojení odmítnuto | Kapcsolat elutasítva | Förbindelsen förvägrad | Kết nối bị từ chối | У з'єднанні відмовлено
Connection timed out: 连接超时 | 由于连接方在一段时间后没有正确答复 | 連線超過時間 | 接続がタイムアウトしました | 연결 시간 초과 | Время ожидания соединения истекло
Connection timed out: Попытка установить соединение была безуспешной | Die Wartezeit für die Verbindung ist abgelaufen
Connection timed out: Connexion terminée par expiration du délai d'attente | le parti connecté n’a pas répondu | Expiró el tiempo de conexión
Connection timed out: la parte conectada no respondió adecuadamente | Tempo esgotado para conexão | o componente conectado não respondeu
Connection timed out: Ligação expirada | Przekroczony czas oczekiwania na połączenie | Bağlantıda zaman aşımı | Kết nối đã quá hạn
Connection reset by peer: 连接被对方重设 | 连接被对方重置 | 远程主机强迫关闭了一个现有的连接 | 連線被對方重設 | 接続が相手からリセットされました
Connection reset by peer: 既存の接続はリモート ホストに強制的に切断されました | 상대편이 연결을 끊음 | 현재 연결은 원격 호스트에 의해 강제로 끊겼습니다
Connection reset by peer: Соединение разорвано другой стороной | хост принудительно разорвал существующее подключение
Connection reset by peer: Die Verbindung wurde vom Kommunikationspartner zurückgesetzt | Connexion ré-initialisée par le correspondant
Connection reset by peer: Une connexion existante a dû être fermée par l’hôte distant | Conexión reinicializada por la máquina remota
Connection reset by peer: la interrupción de una conexión existente por el host remoto | Conexão fechada pela outra ponta
Connection reset by peer: o cancelamento de uma conexão existente pelo host remoto | Połączenie zerwane przez drugą stronę | Bağlantı karşıdan kesildi
No route to host: 没有到主机的路由 | 套接字操作尝试一个无法连接的主机 | 找不到通往該主機的路由路徑 | ホストへの経路がありません | 호스트로 갈 루트가 없음
No route to host: Нет маршрута до узла | Aucun chemin d'accès pour atteindre l'hôte cible | Não há rota para o host | Brak trasy do hosta
Network is unreachable: 网络不可达 | ネットワークに届きません | Сеть недоступна | Le réseau n'est pas accessible | La rete non è raggiungibile
Name or service not known: 未知的名称或服务 | 不知道这样的主机 | 無法識別這台主機 | 名稱或服務未知 | 名前またはサービスが不明です | そのようなホストは不明です
Name or service not known: 이름 혹은 서비스를 알 수 없습니다 | 알려진 호스트가 없습니다 | Неизвестное имя или служба | Этот хост неизвестен
Name or service not known: Hôte inconnu | Nome ou serviço desconhecido | Este host não é conhecido | Ta nazwa lub usługa jest nieznana
Temporary failure in name resolution: 域名解析暂时失败 | 解析名稱時發生暫時性錯誤 | name resolution에서 일시적인 실패 | 名前解決に一時的に失敗しました | Временный сбой в разрешении имен
Temporary failure in name resolution: Temporärer Fehler bei der Namensauflösung | Échec temporaire dans la résolution du nom
Temporary failure in name resolution: Falha temporária na resolução de nome | Falha temporário na resolução de nome | Odwzorowanie nazwy jest chwilowo niemożliwe | Fallo temporal en la resolución del nombre
"""
_ENGLISH = tuple(
    (phrase.strip().encode(), english.encode())
    for english, _, phrases in (line.partition(": ") for line in _TABLE.strip().splitlines())
    for phrase in phrases.split(" | ")
)


def in_english(line: bytes) -> bytes:
    """Return a line with the words of an operating system in English; the line itself if it has none in another language."""
    if line.isascii():
        return line
    for phrase, english in _ENGLISH:
        if phrase in line:
            line = line.replace(phrase, english)
    return line
